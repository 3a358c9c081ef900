// Package tiny is how a policy of a million parameters reads and writes: a
// language of a few hundred words in which each id, key, enum value and small
// number of a domain is one token, and a whole trajectory is one row.
//
//	card and goal  <act> cancel { user U1 order #01 reason mistake } <end>
//	               <rehearse> { order #01 status cancelled items [ P1 ] pay card total 12 } <end>
//	               <act> done <end>
//
// Words stand for JSON and back (codec.go); a trajectory's tokens are a prefix of
// its next prompt, so that nothing is read twice. The package knows no domain: the
// words are learnt from an environment's tools, tasks and answers.
package tiny
