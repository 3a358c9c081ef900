// Package diff decodes JSON strictly, hashes it canonically, compares two
// values under a path policy and describes how state changed as a Patch.
// It knows no domain word of ours: values in, typed differences out.
//
//	raw bytes ── Decode, Normalise ──► Value ──┬── Hash, Equal
//	                                           ├── Diff, Cells ──► Patch: Apply, Invert
//	policy ── ParsePolicy ──► Rules ───────────┴── Compare ──► Comparison: Differences, scores
//
// Decode keeps the raw bytes and lays one slice of nodes over them; a text that
// is no JSON, or beyond a limit, gets a class of its own. Normalise unwraps what
// tools wrap their answers in. Compare judges a rehearsed value by a real one: it
// walks both side by side, finds for every path the most specific rule, aligns
// arrays, and notes what differs. A Bijection carries the renaming of ids through
// an episode.
//
// Two notions of sameness live here on purpose. Equal, Hash and Compare take
// numbers as decimals: 1 is 1.0. Diff also keeps integers and floats apart, as the
// program that owns the state does.
//
// Read Compare first, then Rule.
package diff
