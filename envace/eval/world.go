package eval

import (
	"context"

	"understudy/audit"
	"understudy/envace"
)

// asCallers makes each call in the role that its tool is for: where the agent has the
// user's tools too (nobody plays the user), a call of one is the user's.
type asCallers struct {
	envace.Source
	tools []audit.Tool
}

// Open implements envace.Source.
func (a asCallers) Open(ctx context.Context, task audit.Task) (envace.World, error) {
	world, err := a.Source.Open(ctx, task)
	if err != nil {
		return nil, err
	}
	executed, ok := world.(envace.Executed)
	if !ok {
		return world, nil
	}
	roles := map[string]string{}
	for _, tool := range a.tools {
		roles[tool.Name] = tool.Role
	}
	return callersWorld{executed, roles}, nil
}

type callersWorld struct {
	envace.Executed
	roles map[string]string
}

// Answer implements envace.World.
func (w callersWorld) Answer(ctx context.Context, t *envace.Transcript, call audit.Call, seed uint64) (envace.Answer, error) {
	if call.Role == "" {
		call.Role = w.roles[call.Tool]
	}
	return w.Executed.Answer(ctx, t, call, seed)
}
