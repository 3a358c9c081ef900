package synth

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

//go:embed prompts/write.md
var writePrompt string

// maxState bounds the initial records: what does not fit a prompt cannot be tested.
const maxState = 256 << 10

// code is the author's answer to "write this piece".
type code struct {
	Code string `json:"code"`
}

func codeSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":["code"],"properties":{"code":{"type":"string"}}}`)
}

// write writes the planned domain piece by piece; each is compiled and guarded
// before the next is asked for. An operation whose code stays broken is left out
// and named.
func write(ctx context.Context, a *author, d draft) (draft, []string, error) {
	wanted, err := json.Marshal(d.plan)
	if err != nil {
		return d, nil, fmt.Errorf("encode the plan: %w", err)
	}
	about := "The domain:\n" + string(wanted)
	d.state, err = writePiece(ctx, a, about+"\n\nWrite the state piece.", func(code string) error {
		d := d
		d.state = code
		return d.try(ctx, func(env *starlark.ChildEnvironment) error { return acceptState(ctx, env) })
	})
	if err != nil {
		return d, nil, fmt.Errorf("write the state: %w", err)
	}
	about += "\n\nThe state piece:\n" + d.state
	d.rules, err = writePiece(ctx, a, about+"\n\nWrite the rules piece.", func(code string) error {
		d := d
		d.rules = code
		return d.try(ctx, func(*starlark.ChildEnvironment) error { return nil })
	})
	if err != nil {
		return d, nil, fmt.Errorf("write the rules: %w", err)
	}
	var dropped []string
	for _, operation := range d.plan.Operations {
		written, err := writeTool(ctx, a, d, operation, "")
		switch {
		case errors.Is(err, ErrBudget) || ctx.Err() != nil:
			return d, dropped, err
		case err != nil:
			dropped = append(dropped, operation.Name+": "+err.Error())
		default:
			d = written
		}
	}
	return d, dropped, nil
}

// writeTool writes one operation, or mends it: faults says what is wrong with the
// code that the draft holds.
func writeTool(ctx context.Context, a *author, d draft, operation Operation, faults string) (draft, error) {
	wanted, err := json.Marshal(struct {
		Plan      Plan      `json:"domain"`
		Operation Operation `json:"operation"`
	}{d.plan, operation})
	if err != nil {
		return d, fmt.Errorf("encode the plan: %w", err)
	}
	user := fmt.Sprintf("%s\n\nThe state piece:\n%s\n\nThe rules piece:\n%s\n\nWrite the piece of the operation %s: its function and its tool(...).",
		wanted, d.state, d.rules, operation.Name)
	if faults != "" {
		user += faults
	}
	written := d
	_, err = writePiece(ctx, a, user, func(code string) error {
		written = d.with(tool{operation, code})
		return written.try(ctx, func(env *starlark.ChildEnvironment) error { return acceptTool(ctx, env, operation) })
	})
	if err != nil {
		return d, err
	}
	return written, nil
}

func writePiece(ctx context.Context, a *author, user string, accept func(string) error) (string, error) {
	got, err := ask(ctx, a, Prompt{System: writePrompt, User: user, Schema: codeSchema(), Temperature: 0.2}, func(c *code) error { return accept(c.Code) })
	return got.Code, err
}

// acceptState refuses a world that cannot be opened or does not fit a prompt.
func acceptState(ctx context.Context, env audit.Environment) error {
	session, err := env.Open(ctx, audit.Start{})
	if err != nil {
		return err
	}
	state, err := session.(audit.Stater).State(ctx, "")
	if err == nil && len(state) > maxState {
		err = fmt.Errorf("the initial records take %d kB; make at most %d kB", len(state)>>10, maxState>>10)
	}
	return errors.Join(err, session.Close())
}

// acceptTool refuses code that declares another tool than the one asked for.
func acceptTool(ctx context.Context, env audit.Environment, operation Operation) error {
	tools, err := env.Tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		if t.Name != operation.Name {
			continue
		}
		if t.Effect != operation.Effect {
			return fmt.Errorf("tool %s is declared with effect %s, the plan says %s", t.Name, t.Effect, operation.Effect)
		}
		return nil
	}
	return fmt.Errorf("the code declares no tool %s: end it with tool(%s, ...)", operation.Name, operation.Name)
}
