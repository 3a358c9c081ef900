// Package train trains a policy in both roles at once by role-wise GRPO
// (arXiv 2608.06197), with no environment, a real one, or both.
//
//	tasks ──► K rollouts a task ──► grade ──► advantages by (task, role) ──► loss on sampled tokens ──► AdamW
//	           ACT and REHEARSE       │              ▲
//	                                  └─ audit ──► calibration term of REHEARSE outputs
//
// A recipe (recipe.go) names everything that a run depends on; an arm (arm.go)
// switches between EnvACE, its ablations and the baselines. A run is a function of
// recipe, arm and seed: draws are derived from them and the step, so that a run
// that was cut short goes on bit for bit from its last checkpoint. What has no
// reward (a judge or a world that failed) is left out of baseline and loss, never
// counted as 0.
package train
