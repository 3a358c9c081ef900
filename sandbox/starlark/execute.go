package starlark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/sandbox/state"
)

// execute makes one call against root and returns what happened and the root
// after it: root itself unless the call succeeded and changed something. A Go
// panic, wherever in the engine, is a fault without effect. The error is only
// the caller's cancellation.
func (d *Domain) execute(ctx context.Context, root *state.Object, call audit.Call) (audit.Observation, *state.Object, error) {
	started := time.Now()
	var obs audit.Observation
	var after *state.Object
	err := contain(func() (err error) {
		obs, after, err = d.carryOut(ctx, root, call)
		return err
	})
	if _, panicked := errors.AsType[*panicError](err); panicked {
		obs = audit.Observation{Evidence: audit.EvidenceExact, Delta: diff.Patch{}, Before: state.Digest(root)}
		obs.After, after = obs.Before, root
		d.answerFailure(&obs, err)
		err = nil
	}
	obs.Cost.Wall = time.Since(started)
	return obs, after, err
}

// carryOut is execute without its safety net.
func (d *Domain) carryOut(ctx context.Context, root *state.Object, call audit.Call) (audit.Observation, *state.Object, error) {
	obs := audit.Observation{Evidence: audit.EvidenceExact, Delta: diff.Patch{}}
	after := root
	t, kwargs, refused := d.admit(call)
	if refused != nil {
		d.answerError(&obs, audit.StatusInvalid, refused)
	} else {
		after = d.transact(ctx, root, t, kwargs, &obs)
	}
	if err := ctx.Err(); err != nil && obs.Status == audit.StatusFault {
		return obs, root, fmt.Errorf("call %s: %w", call.Tool, err)
	}
	obs.Before = state.Digest(root)
	obs.After = obs.Before
	if after != root {
		obs.After = state.Digest(after)
	}
	return obs, after, nil
}

// transact runs the handler and the after-call hooks in one transaction.
func (d *Domain) transact(ctx context.Context, root *state.Object, t *toolDef, kwargs []starlark.Tuple, obs *audit.Observation) *state.Object {
	r := d.newRun(d.limits.Steps)
	defer r.release()
	r.tx, r.role = state.Begin(root), t.Role
	after := root
	err := r.within(ctx, d.limits.Wall, func() error {
		db := starlark.Tuple{r.tx.Root()}
		v, err := starlark.Call(r.thread, t.fn, db, kwargs)
		for i := 0; i < len(d.after) && err == nil; i++ {
			_, err = starlark.Call(r.thread, d.after[i], db, nil)
		}
		if err != nil {
			return err
		}
		raw, err := r.encode(v)
		if err != nil {
			return fmt.Errorf("encode the response of %s: %w", t.Name, err)
		}
		next := r.tx.Commit()
		if next != root {
			if err := d.schema.accept(next); err != nil {
				return err
			}
		}
		if obs.Delta, err = state.DiffWithin(root, next, int(d.limits.Bytes)); err != nil {
			return fmt.Errorf("the delta of %s: %w", t.Name, err)
		}
		obs.Status, obs.Raw, after = audit.StatusOK, raw, next
		return nil
	})
	obs.Cost.Steps, obs.Cost.Bytes = r.thread.ExecutionSteps(), uint64(r.bytes)
	if err != nil {
		obs.Delta = diff.Patch{}
		d.answerFailure(obs, err)
		return root
	}
	return after
}

// admit finds the tool and turns the raw arguments into keyword arguments, or
// says why the call is invalid.
func (d *Domain) admit(call audit.Call) (*toolDef, []starlark.Tuple, *refusal) {
	t := d.byName[call.Tool]
	if t == nil || call.Role != t.Role && (call.Role != "" || t.Role == roleSetup) {
		return nil, nil, d.unknownTool(call)
	}
	args, bad := d.decodeArguments(call.Arguments)
	if bad != nil {
		return nil, nil, bad
	}
	if d.Compat == CompatTau2 {
		kwargs, bad := d.pythonArguments(t, args)
		return t, kwargs, bad
	}
	kwargs, wrong := t.params.acceptFields(args)
	if wrong != nil {
		details := state.NewObject([]string{"pointer"}, []starlark.Value{starlark.String(wrong.pointer)})
		return nil, nil, &refusal{family: audit.SchemaInvalid, message: wrong.Error(), details: details}
	}
	return t, kwargs, nil
}

func (d *Domain) unknownTool(call audit.Call) *refusal {
	if d.Compat == CompatTau2 {
		return &refusal{family: audit.UnknownTool, message: fmt.Sprintf("Tool '%s' not found.", call.Tool)}
	}
	if d.byName[call.Tool] != nil {
		return &refusal{family: audit.UnknownTool, message: fmt.Sprintf("%s is not a tool of the %s", call.Tool, call.Role)}
	}
	message := fmt.Sprintf("there is no tool %.80q", call.Tool)
	if near := d.nearest(call.Tool); near != "" {
		message += "; did you mean " + near + "?"
	}
	return &refusal{family: audit.UnknownTool, message: message}
}

// decodeArguments reads the arguments under the program's limits. No text at all
// means no arguments.
func (d *Domain) decodeArguments(raw json.RawMessage) (*state.Object, *refusal) {
	if len(raw) > d.limits.Arguments {
		return nil, &refusal{
			family:  audit.MalformedCall,
			message: fmt.Sprintf("arguments of %d bytes; the limit is %d", len(raw), d.limits.Arguments),
		}
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return state.NewObject(nil, nil), nil
	}
	args, err := state.DecodeObject(raw)
	if err != nil {
		return nil, &refusal{family: audit.MalformedCall, message: "arguments: " + err.Error()}
	}
	return args, nil
}

// encode writes a handler's result as the agent sees it.
func (r *run) encode(v starlark.Value) ([]byte, error) {
	style := state.Compact()
	if r.domain.Compat == CompatTau2 {
		if s, ok := v.(starlark.String); ok {
			return []byte(s), nil
		}
		style = state.Python()
	}
	text, err := answer(style).Append(r.answer[:0], v)
	if err != nil {
		return nil, err
	}
	r.answer = text
	return bytes.Clone(text), nil
}

// maxAnswer is four times what an auditor decodes (design.md 4).
const maxAnswer = 4 << 20

// answer is a style whose texts are short enough to be answers.
func answer(style state.Style) state.Style {
	style.Limit = maxAnswer
	return style
}

// limited is a style whose texts stay within a call's memory.
func (d *Domain) limited(style state.Style) state.Style {
	style.Limit = int(d.limits.Bytes)
	return style
}

// answerFailure fills the observation of a handler that did not return.
func (d *Domain) answerFailure(obs *audit.Observation, err error) {
	if e, ok := asRefusal(err); ok {
		d.answerError(obs, audit.StatusRefused, e)
		return
	}
	if text, ok := d.pythonFailure(err); ok {
		d.answerError(obs, audit.StatusRefused, &refusal{family: audit.Internal, message: text})
		return
	}
	d.answerError(obs, audit.StatusFault, &refusal{family: audit.Internal, message: faultText(err)})
}

// answerError fills the observation of a call that had no effect.
func (d *Domain) answerError(obs *audit.Observation, status audit.Status, e *refusal) {
	obs.Status = status
	obs.Error = &audit.CallError{Family: e.family, Message: e.message}
	if e.details != nil {
		details, err := answer(state.Compact()).Append(nil, e.details)
		if err != nil {
			e = &refusal{family: e.family, message: e.message}
		}
		obs.Error.Details = details
	}
	if d.Compat == CompatTau2 {
		obs.Raw = []byte("Error: " + e.message)
		return
	}
	body := members{}
	body.add("code", starlark.String(e.family))
	body.add("message", starlark.String(e.message))
	if e.details != nil {
		body.add("details", e.details)
	}
	obs.Raw = state.AppendJSON(nil, state.NewObject([]string{"error"}, []starlark.Value{state.NewObject(body.keys, body.vals)}))
}

// errClosed is returned by every method of a session that was closed.
var errClosed = errors.New("the session is closed")
