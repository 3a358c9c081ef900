package envace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
)

// script is a policy that says what is written down: ACT's lines in turn, and an
// answer for every call.
type script struct {
	act    []string // "call NAME", "calls N", "reply", "cut", "nonsense" or "long"
	answer func(call audit.Call, t *envace.Transcript) string
	fail   error
}

func (s *script) Generate(_ context.Context, r envace.Request) (envace.Output, error) {
	if s.fail != nil {
		return envace.Output{}, s.fail
	}
	if r.Role == audit.RehearseRole {
		return envace.Output{Role: r.Role, Text: s.answer(r.Call, r.Transcript)}, nil
	}
	said := 0
	for _, item := range r.Transcript.Items {
		if item.Act != nil {
			said++
		}
	}
	line := s.act[min(said, len(s.act)-1)]
	if line == "long" {
		return envace.Output{}, fmt.Errorf("12001 tokens: %w", envace.ErrPrompt)
	}
	return envace.Output{Role: r.Role, Text: line, Truncated: line == "cut"}, nil
}

func readAct(o envace.Output) envace.Act {
	act := envace.Act{Output: o}
	verb, rest, _ := strings.Cut(o.Text, " ")
	switch verb {
	case "call":
		act.Calls = []audit.Call{{Tool: rest, Arguments: json.RawMessage(`{}`)}}
	case "calls":
		for i := range len(rest) {
			act.Calls = append(act.Calls, audit.Call{Tool: rest[i : i+1], Arguments: json.RawMessage(`{}`)})
		}
	case "nonsense":
		act.Fault = envace.FaultMalformed
	default:
		act.Reply = o.Text
	}
	return act
}

func readRehearsal(o envace.Output) envace.Rehearsed {
	return envace.Rehearsed{Output: o, Rehearsal: audit.Rehearsal{Raw: []byte(o.Text)}}
}

func rolloutOf(t *testing.T, s *script) envace.Rollout {
	t.Helper()
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return envace.Rollout{
		Policy: s, Source: envace.Rehearsing{Policy: s, Read: readRehearsal}, ReadAct: readAct, Rules: rules,
		Limits: envace.Limits{Turns: 5, UserTurns: 2, ParallelCalls: 2, Response: 10},
	}
}

// brokenWorld is a source whose worlds do not answer.
type brokenWorld struct{ envace.World }

func (brokenWorld) Open(context.Context, audit.Task) (envace.World, error) { return brokenWorld{}, nil }
func (brokenWorld) Close() error                                           { return nil }
func (brokenWorld) Answer(context.Context, *envace.Transcript, audit.Call, uint64) (envace.Answer, error) {
	return envace.Answer{}, fmt.Errorf("sandbox down: %w", envace.ErrWorld)
}

type angryUser struct{}

func (angryUser) Next(context.Context, *envace.Transcript, uint64) (string, error) {
	return "", errors.New("no user today")
}

// Every way to end has a reason of its own (facts/envace.md, section 6, trap 6), and a
// rehearsed error is none of them unless asked for (trap 8 e).
func TestTrap06EveryStopHasItsReason(t *testing.T) {
	t.Parallel()
	tests := []struct {
		act    []string
		answer string
		change func(*envace.Rollout)
		stop   envace.Stop
		calls  int
		reason string
	}{
		{[]string{"call a", "reply"}, `{}`, nil, envace.StopDone, 1, "a reply, and the user is content"},
		{[]string{"call a"}, `{}`, nil, envace.StopTurns, 5, "an agent that never stops calling is stopped"},
		{[]string{"call a"}, `{}`, func(r *envace.Rollout) { r.Limits = envace.Limits{} }, envace.StopTurns, 30, "at 30 turns, as the paper has it"},
		{[]string{"reply"}, "", func(r *envace.Rollout) { r.User = envace.Scripted{"more", "more", "more"} }, envace.StopUserTurns, 0, "a user who never stops"},
		{[]string{"reply"}, "", func(r *envace.Rollout) { r.User = envace.Scripted{"more"} }, envace.StopDone, 0, "a user who stops"},
		{[]string{"call a", "long"}, `{}`, nil, envace.StopPrompt, 1, "nothing is cut off to make a prompt fit"},
		{[]string{"cut"}, "", nil, envace.StopTruncated, 0, "half a reply is no reply"},
		{[]string{"nonsense"}, "", nil, envace.StopMalformed, 0, "neither call nor reply"},
		{[]string{"call a"}, "", func(r *envace.Rollout) { r.Source = brokenWorld{} }, envace.StopWorld, 0, "a world that is down has no reward"},
		{[]string{"reply"}, "", func(r *envace.Rollout) { r.User = angryUser{} }, envace.StopUser, 0, "nor has a user who fails"},
		{[]string{"call a", "reply"}, `{"error":{"code":"conflict","message":"no"}}`, nil, envace.StopDone, 1, "a refusal is an ordinary answer"},
		{[]string{"call a", "reply"}, `{"error":{"code":"conflict","message":"no"}}`, func(r *envace.Rollout) { r.Errors = envace.ErrorTerminate }, envace.StopErrorReply, 1, "the published code ends there"},
		{[]string{"calls abcd", "reply"}, `{}`, nil, envace.StopDone, 2, "two of four calls are made, the others refused"},
	}
	for _, test := range tests {
		rollout := rolloutOf(t, &script{act: test.act, answer: func(audit.Call, *envace.Transcript) string { return test.answer }})
		if test.change != nil {
			test.change(&rollout)
		}
		got, err := rollout.Run(t.Context(), audit.Task{ID: "t"}, 1)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		if got.Stop != test.stop || len(got.Calls()) != test.calls || got.Stop.Rewardless() != (got.Err != nil) {
			t.Errorf("%s: stopped by %q after %d calls (%v), want %q after %d", test.reason, got.Stop, len(got.Calls()), got.Err, test.stop, test.calls)
		}
		if wanted := max(0, len(strings.TrimPrefix(test.act[0], "calls "))-2); strings.HasPrefix(test.act[0], "calls") && got.Dropped != wanted {
			t.Errorf("%s: %d calls were dropped", test.reason, got.Dropped)
		}
	}
}

// Calls of one output see what the ones before them were answered, and REHEARSE's
// request names the very call.
func TestParallelCallsSeeEachOther(t *testing.T) {
	t.Parallel()
	var seen []string
	s := &script{act: []string{"calls ab", "reply"}, answer: func(call audit.Call, tr *envace.Transcript) string {
		seen = append(seen, fmt.Sprintf("%s after %d", call.Tool, len(tr.History())))
		return `{}`
	}}
	if _, err := rolloutOf(t, s).Run(t.Context(), audit.Task{}, 1); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a after 0", "b after 1"}; !slices.Equal(seen, want) {
		t.Errorf("answered %v, want %v", seen, want)
	}
}

func TestRolloutErrors(t *testing.T) {
	t.Parallel()
	down := errors.New("server down")
	if _, err := rolloutOf(t, &script{fail: down}).Run(t.Context(), audit.Task{}, 1); !errors.Is(err, down) {
		t.Errorf("a policy that cannot be asked is the caller's to handle: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{act: []string{"call a"}, answer: func(audit.Call, *envace.Transcript) string { return `{}` }}
	rollout := rolloutOf(t, s)
	rollout.Source = cancelling{cancel}
	if _, err := rollout.Run(ctx, audit.Task{}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while a call was answered: %v", err)
	}
	rollout.Source = lateWorld{}
	if got, err := rollout.Run(ctx, audit.Task{}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the world was open: %+v, %v: a world that says so has not failed", got, err)
	}
}

// lateWorld cannot be opened any more.
type lateWorld struct{}

func (lateWorld) Open(ctx context.Context, _ audit.Task) (envace.World, error) {
	return nil, fmt.Errorf("open: %w: %w", envace.ErrWorld, ctx.Err())
}

// cancelling is a world during whose first answer the run is cancelled.
type cancelling struct{ cancel func() }

func (c cancelling) Open(context.Context, audit.Task) (envace.World, error) { return c, nil }
func (cancelling) Close() error                                             { return nil }
func (c cancelling) Answer(context.Context, *envace.Transcript, audit.Call, uint64) (envace.Answer, error) {
	c.cancel()
	return envace.Answer{}, envace.ErrWorld
}

func TestRecordedWorld(t *testing.T) {
	t.Parallel()
	call := audit.Call{Tool: "a", Arguments: json.RawMessage(`{"x":1}`)}
	same := audit.Call{Tool: "a", Arguments: json.RawMessage(`{ "x": 1.0 }`)}
	source := envace.Recorded{Turns: map[string][]audit.Turn{"t": {{Call: call, Answer: []byte("1")}, {Call: call, Answer: []byte("2")}}}}
	world, err := source.Open(t.Context(), audit.Task{ID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range []audit.Call{call, same, call, {Tool: "b"}} {
		answer, err := world.Answer(t.Context(), nil, c, 0)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(answer.Raw))
	}
	if want := []string{"1", "2", "2", `{"error":{"code":"not_found","message":"no recording of this call"}}`}; !slices.Equal(got, want) {
		t.Errorf("answered %q, want %q", got, want)
	}
	if _, err := source.Open(t.Context(), audit.Task{ID: "u"}); !errors.Is(err, envace.ErrWorld) {
		t.Errorf("a task without recording: %v", err)
	}
}
