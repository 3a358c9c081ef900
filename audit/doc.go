// Package audit is the domain of Understudy: what a policy did (Action,
// Rehearsal), what really happens (Environment, Session, Observation), and the
// judgement of one against the other (Pair, Verdict, Figures, Reward).
//
//	Episode ── plan ──► Place ──► rehearse ∥ execute ──► Rules.Judge ──► Pair
//	            │         │            │                     │            │
//	  floods capped,   session in   Rehearser,        outcome, fields,    ├─► Ledger
//	  gaps marked,     the exact    Session, twin     effect, severity,   ├─► Tally ─► Figures
//	  π drawn          pre-state                      φ, or a mask        └─► Hook ─► Reward
//
// Read Auditor.Audit first, then Rules.Judge. Around them:
//
//   - identity: Identity.Key says what makes two audits the same
//   - rules: ParseRules reads envelope tables and the path policy; NoiseLearner
//     and MineEcho learn from runs what nobody declares
//   - figures: PairCounters and EpisodeCounters merge by addition, Tally.Figures
//     adds intervals
//   - reward: RewardOf prices a verdict against the Baselines of a training step,
//     Hook audits what trainers send and pays each output once
//   - batteries: Canaries makes calls that must be refused, AcrossVersions asks
//     whether a policy notices that the world changed
//   - DemoRehearser and RecordedRehearser stand in for a policy in tests and demos
//
// It knows no technology. Stores, queues, environments, policies and pages are
// packages of their own that implement the ports declared here; cmd/understudy
// alone wires them.
package audit
