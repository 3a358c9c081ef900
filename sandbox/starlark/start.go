package starlark

import (
	"context"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// generateWall guards against a generator that hangs. What one may do is bounded by its
// steps: half a minute of the clock was reached by a machine that was busy otherwise.
const generateWall = 5 * time.Minute

// initial builds the state that start asks for.
func (d *Domain) initial(ctx context.Context, start audit.Start) (*state.Object, error) {
	var t *task
	var err error
	if start.Task != "" {
		if t, err = d.findTask(ctx, start.Task); err != nil {
			return nil, err
		}
	}
	root, err := d.given(ctx, start, t)
	if err != nil {
		return nil, err
	}
	if root, err = withSys(root, start.Seed, start.Clock); err != nil {
		return nil, d.badState(err)
	}
	if err := d.schema.accept(root); err != nil {
		return nil, d.badState(err)
	}
	if t == nil {
		return root, nil
	}
	for i, call := range t.Setup {
		var obs audit.Observation
		obs, root, err = d.execute(ctx, root, call)
		if err != nil {
			return nil, err
		}
		if obs.Status != audit.StatusOK {
			return nil, d.broken("set up task "+t.ID, fmt.Errorf("call %d, %s: %s", i, call.Tool, obs.Raw))
		}
	}
	return root, nil
}

func (d *Domain) badState(err error) error {
	return &audit.Error{Code: audit.CodeInvalid, Message: "open " + d.Manifest.Name, Err: err, Hint: "the state is a JSON object"}
}

// given is the state that the caller brings, the world of the task, or the domain's own.
func (d *Domain) given(ctx context.Context, start audit.Start, t *task) (*state.Object, error) {
	if start.State != nil {
		root, err := state.DecodeObject(start.State)
		if err != nil {
			return nil, d.badState(err)
		}
		return root, nil
	}
	if t != nil && t.state != nil {
		return t.state, nil
	}
	if t != nil && t.world != 0 {
		return d.generated(ctx, t.world) // not kept: a domain may have thousands of them
	}
	return d.worlds.get(worldSeed, func() (*state.Object, error) { return d.generated(ctx, worldSeed) })
}

// generated runs the domain's state(rng).
func (d *Domain) generated(ctx context.Context, seed uint64) (*state.Object, error) {
	if d.stateFile != nil {
		root, err := state.DecodeObject(d.stateFile)
		if err != nil {
			return nil, d.broken("read state.json", err)
		}
		return root, nil
	}
	if d.generate == nil {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("domain %s has no state of its own", d.Manifest.Name),
			Hint: "define state(rng, size=None) in state.star, or open the environment with a state",
		}
	}
	r := d.newRun(d.limits.Generate)
	r.bytes = -generateBytes
	var root starlark.Value
	err := r.within(ctx, generateWall, func() error {
		v, err := starlark.Call(r.thread, d.generate, starlark.Tuple{newRNG(seed, "state")}, nil)
		if err != nil {
			return err
		}
		root, err = state.Freeze(v)
		return err
	})
	if err != nil {
		return nil, d.broken("generate the state", err)
	}
	o, ok := root.(*state.Object)
	if !ok {
		return nil, d.broken("generate the state", fmt.Errorf("state returned %s, not a dict", state.JSONType(root)))
	}
	return o, nil
}
