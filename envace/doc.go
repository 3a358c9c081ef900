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
// envace/tiny, on the built-in engine through envace/local. envace/judge grades,
// envace/grpo and envace/train learn; envace/private rehearses at test time and
// envace/guard decides what of it reaches a real environment. The ten traps of
// facts/envace.md, section 6, are tests: 1, 2 and 5 in envace/train, 3, 4 and 5 in
// envace/grpo, 6 here and in envace/chat, 7 in envace/judge, 8 in envace/chat and,
// as what trainers are warned of, in audit; 9 in envace/private; 10 in audit.
package envace
