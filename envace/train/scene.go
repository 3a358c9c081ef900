package train

import (
	"understudy/audit"
	"understudy/envace"
)

// Scene is what a task brings along itself: its tools, what the agent is told, and
// what its user says after the first prompt. Tasks of an environment have none: the
// environment says it for all of them.
type Scene struct {
	Told  string
	Tools []audit.Tool
	User  envace.User // nil = silent
}

// rolloutOf is how a task is rolled out.
func (t *Trainer) rolloutOf(task audit.Task) envace.Rollout {
	r := t.rollout
	if scene, found := t.Scenes[task.ID]; found {
		r.Told, r.Tools, r.User = scene.Told, scene.Tools, scene.User
	}
	return r
}
