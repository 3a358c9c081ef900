package envace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"understudy/audit"
)

// Source opens the worlds in which rollouts happen.
type Source interface {
	Open(ctx context.Context, task audit.Task) (World, error)
}

// World answers the calls of one rollout, in order: what a call changed is there
// for the next one, also within one ACT output.
type World interface {
	// Answer answers a call that ACT made; the transcript holds everything before
	// it. A failure of what the world needs (a model server, a sandbox) is
	// ErrWorld: the rollout has no reward then, which is not a reward of 0.
	Answer(ctx context.Context, t *Transcript, call audit.Call, seed uint64) (Answer, error)
	Close() error
}

var (
	// ErrWorld is returned, wrapped, when a world could not answer.
	ErrWorld = errors.New("the world did not answer")
	// ErrPrompt is returned, wrapped, when a prompt exceeds what a policy reads.
	ErrPrompt = errors.New("the prompt is over the context")
)

// Rehearsing is EnvACE's source: the policy itself answers, in the REHEARSE role.
type Rehearsing struct {
	Policy Policy
	Read   func(o Output) Rehearsed // of a REHEARSE output
	Max    int                      // tokens of an answer
	Greedy bool
}

var _ Source = Rehearsing{}

// Open implements Source. The world is in the transcript: there is none to open.
func (r Rehearsing) Open(context.Context, audit.Task) (World, error) { return rehearsedWorld{r}, nil }

type rehearsedWorld struct{ Rehearsing }

// Answer implements World.
func (w rehearsedWorld) Answer(ctx context.Context, t *Transcript, call audit.Call, seed uint64) (Answer, error) {
	output, err := w.Policy.Generate(ctx, Request{Transcript: t, Role: audit.RehearseRole, Call: call, Seed: seed, Greedy: w.Greedy, Max: w.Max})
	if err != nil {
		return Answer{}, err
	}
	r := w.Read(output)
	return Answer{Call: call, Raw: r.Raw, Rehearsal: &r}, nil
}

// Close implements World.
func (rehearsedWorld) Close() error { return nil }

// Simulated is the Simulator baseline: another model answers in the REHEARSE role.
type Simulated struct{ Rehearser audit.Rehearser }

var _ Source = Simulated{}

// Open implements Source.
func (s Simulated) Open(context.Context, audit.Task) (World, error) { return simulatedWorld{s}, nil }

type simulatedWorld struct{ Simulated }

// Answer implements World.
func (w simulatedWorld) Answer(ctx context.Context, t *Transcript, call audit.Call, seed uint64) (Answer, error) {
	request := audit.RehearseRequest{Tools: t.Tools, History: t.History(), Call: call, K: 1, Seed: seed}
	for _, tool := range t.Tools {
		if tool.Name == call.Tool {
			request.Tool = tool
		}
	}
	answers, err := w.Rehearser.Rehearse(ctx, request)
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("ask the simulator: %w: %w", ErrWorld, err)
	case len(answers) == 0 || answers[0].Unavailable != "":
		return Answer{}, fmt.Errorf("ask the simulator: %w: no answer", ErrWorld)
	}
	return Answer{Call: call, Raw: answers[0].Raw}, nil
}

// Close implements World.
func (simulatedWorld) Close() error { return nil }

// Executing answers from an executable environment, such as a sandbox.
type Executing struct{ Environment audit.Environment }

var _ Source = Executing{}

// Open implements Source.
func (e Executing) Open(ctx context.Context, task audit.Task) (World, error) {
	session, err := e.Environment.Open(ctx, audit.Start{Task: task.ID})
	if err != nil {
		return nil, fmt.Errorf("open the world of task %s: %w: %w", task.ID, ErrWorld, err)
	}
	return executedWorld{session}, nil
}

// Executed is a world of an executable environment.
type Executed interface {
	World
	Session() audit.Session
}

var _ Executed = executedWorld{}

type executedWorld struct{ session audit.Session }

// Answer implements World.
func (w executedWorld) Answer(ctx context.Context, _ *Transcript, call audit.Call, _ uint64) (Answer, error) {
	seen, err := w.session.Call(ctx, call)
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("call %s: %w: %w", call.Tool, ErrWorld, err)
	case seen.Status == audit.StatusFault || seen.Status == audit.StatusUnknown:
		return Answer{}, fmt.Errorf("call %s: %w: %s", call.Tool, ErrWorld, seen.Raw)
	}
	return Answer{Call: call, Raw: seen.Raw}, nil
}

// Session implements Executed.
func (w executedWorld) Session() audit.Session { return w.session }

// Close implements World.
func (w executedWorld) Close() error { return w.session.Close() }

// Recorded answers from recordings: the answer that the same call had in a task's
// recording, and a refusal for a call that was never recorded. No role rehearses.
type Recorded struct {
	Turns map[string][]audit.Turn // by task
}

var _ Source = Recorded{}

// Open implements Source.
func (r Recorded) Open(_ context.Context, task audit.Task) (World, error) {
	turns, found := r.Turns[task.ID]
	if !found {
		return nil, fmt.Errorf("task %s was not recorded: %w", task.ID, ErrWorld)
	}
	return &recordedWorld{turns: turns, used: make([]bool, len(turns))}, nil
}

type recordedWorld struct {
	turns []audit.Turn
	used  []bool
}

// Answer implements World: the first recording of the call that was not given yet,
// else the last one.
func (w *recordedWorld) Answer(_ context.Context, _ *Transcript, call audit.Call, _ uint64) (Answer, error) {
	wanted, last := audit.CallDigest(call), -1
	for i, turn := range w.turns {
		if audit.CallDigest(turn.Call) != wanted {
			continue
		}
		last = i
		if !w.used[i] {
			break
		}
	}
	if last < 0 {
		return Answer{Call: call, Raw: Refusal(audit.NotFound, "no recording of this call")}, nil
	}
	w.used[last] = true
	return Answer{Call: call, Raw: w.turns[last].Answer}, nil
}

// Close implements World.
func (*recordedWorld) Close() error { return nil }

// Refusal is a domain error in the shape that REHEARSE is asked for.
func Refusal(family audit.Family, message string) []byte {
	type detail struct {
		Code    audit.Family `json:"code"`
		Message string       `json:"message"`
	}
	raw, _ := json.Marshal(struct {
		Error detail `json:"error"`
	}{detail{family, message}}) // two strings
	return raw
}

// InSession is the world of a session that is open already; it closes the session.
func InSession(session audit.Session) Executed { return executedWorld{session} }
