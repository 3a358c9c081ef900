// Package envace holds the two roles of an EnvACE policy (arXiv 2608.06197):
// ACT, which emits a tool call, and REHEARSE, which plays the environment and
// answers it. It never imports the sandbox: the policy must not see the answer.
//
//	prompt.go, act.go, contract.go   what the roles are told, how their texts are read
//	policy.go, rollout.go, world.go  a policy, a rollout, the worlds that answer it
//	reward.go                        what a trajectory earned
//
// A rollout, each end with its reason ([Stop]):
//
//	        ┌───────────────────────── user says more ◄──────────┐
//	        ▼                                                    │
//	task ─► ACT ── reply ──────────────────────────────────► user ─► done, user_turns, user
//	        │ ▲  └─ cut off, unreadable, over the context ─► truncated, malformed, prompt
//	  calls │ │ all answered, in order; at most Limits.Turns outputs, else turns
//	        ▼ │
//	       world: rehearsed, executed, simulated or recorded ─► world, prompt, error_reply
//
// Chat models play through envace/chat, the language of a few hundred words through
// envace/tiny, on the built-in engine through envace/local. envace/cm2 reads recorded
// conversations, envace/judge grades, envace/grpo and envace/train learn;
// envace/private rehearses at test time and envace/guard decides what of it reaches a
// real environment.
//
// The ten traps of facts/envace.md, section 6, are tests whose names begin with the
// trap (traps_test.go looks for all of them):
//
//	01, 02  envace/train       loss is on sampled tokens, on the very ids
//	03      envace/grpo        baselines of 0.142857 by output and 0.375 by trajectory
//	04      envace/grpo        −0.905 for every split, where a mean of row means is 0
//	05      envace/grpo, train ratio 1 at first, clipped later; top_p leaves the kept mass
//	06      envace, chat       every stop has its reason; prompts are never cut silently
//	07      envace/judge       an unknown verdict leaves the group; too many stop the run
//	08      envace/chat, train thinking and the own future are hidden; the easier world shows
//	09      envace/private     attempts are private, and one execution is committed once
//	10      audit              the recorded world scores full, one flipped field one less
package envace
