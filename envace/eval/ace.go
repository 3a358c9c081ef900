package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/envace"
)

// AgentTask is an ACEBench agent task: a world of Python classes, a question or a
// user to be played, and what attributes of the classes must be in the end. Its
// end-to-end figure is success, its process figure the score: how many of the
// attributes are right.
type AgentTask struct {
	ID       string
	Question string
	Classes  []string
	Config   json.RawMessage // by class
	Tools    []audit.Tool
	Want     map[string]json.RawMessage // attributes by JSON Pointer: /CLASS/ATTRIBUTE
	Talks    bool                       // the question is a scenario for a user who talks
}

type aceEntry struct {
	ID       string          `json:"id"`
	Question json.RawMessage `json:"question"`
	Config   json.RawMessage `json:"initial_config"`
	Classes  []string        `json:"involved_classes"`
	Function []Function      `json:"function"`
	Truth    json.RawMessage `json:"ground_truth"`
}

// ReadACE reads a file of ACEBench agent tasks and its file of possible answers.
func ReadACE(questions, answers []byte) ([]AgentTask, error) {
	entries, err := readLines[aceEntry](questions, "the tasks")
	if err != nil {
		return nil, err
	}
	solved, err := readLines[aceEntry](answers, "the possible answers")
	if err != nil {
		return nil, err
	}
	truth := map[string]json.RawMessage{}
	for _, s := range solved {
		truth[s.ID] = s.Truth
	}
	out := make([]AgentTask, len(entries))
	for i, e := range entries {
		if out[i], err = e.task(truth[e.ID]); err != nil {
			return nil, fmt.Errorf("task %s: %w", e.ID, err)
		}
	}
	return out, nil
}

func (e aceEntry) task(truth json.RawMessage) (AgentTask, error) {
	t := AgentTask{ID: e.ID, Classes: slices.Sorted(slices.Values(e.Classes)), Config: e.Config, Want: map[string]json.RawMessage{}, Talks: strings.Contains(e.ID, "multi_turn")}
	if json.Unmarshal(e.Question, &t.Question) != nil {
		return t, errors.New("its question is no text")
	}
	if len(truth) == 0 {
		return t, errors.New("it has no possible answer")
	}
	for _, f := range e.Function {
		tool, err := f.Tool()
		if err != nil {
			return t, err
		}
		t.Tools = append(t.Tools, tool)
	}
	var list []map[string]map[string]json.RawMessage
	var one map[string]map[string]json.RawMessage
	if json.Unmarshal(truth, &one) == nil {
		list = append(list, one)
	} else if err := json.Unmarshal(truth, &list); err != nil {
		return t, fmt.Errorf("read its possible answer: %w", err)
	}
	for _, classes := range list {
		for class, attributes := range classes {
			for name, value := range attributes {
				t.Want["/"+pointer(class)+"/"+pointer(name)] = value
			}
		}
	}
	if len(t.Want) == 0 {
		return t, errors.New("its possible answer names no attribute")
	}
	return t, nil
}

// pointer escapes a name for a JSON Pointer (RFC 6901).
func pointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// Task is the task in its world. A user who talks is played by talk, with the
// question as the scenario; without one it is said at once.
func (t AgentTask) Task(env audit.Environment, talk *Talker, rules *audit.Rules) Task {
	return Task{
		Task: audit.Task{ID: t.ID, Prompt: t.Question}, Tools: t.Tools, Rules: rules,
		Begin: func() Sample {
			s := Sample{Source: wanting{t, env}, Grade: ByChecks}
			if t.Talks && talk != nil {
				s = talk.join(s, t.Question)
			}
			return s
		},
	}
}

// wanting opens worlds whose terminal checks are the attributes of a task.
type wanting struct {
	task AgentTask
	env  audit.Environment
}

// Open implements envace.Source.
func (w wanting) Open(ctx context.Context, _ audit.Task) (envace.World, error) {
	session, err := w.env.Open(ctx, audit.Start{State: w.task.Config})
	if err != nil {
		return nil, fmt.Errorf("open the world of task %s: %w: %w", w.task.ID, envace.ErrWorld, err)
	}
	checked := &wantingSession{Session: session, want: w.task.Want}
	if checked.initial, _, err = checked.right(ctx); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return envace.InSession(checked), nil
}

type wantingSession struct {
	audit.Session
	want    map[string]json.RawMessage
	initial int
}

var _ audit.Checker = (*wantingSession)(nil)

// Check implements audit.Checker.
func (s *wantingSession) Check(ctx context.Context, _ string) (audit.CheckResult, error) {
	passed, failed, err := s.right(ctx)
	return audit.CheckResult{Checks: len(s.want), Passed: passed, Initial: s.initial, Failed: failed}, err
}

// right counts the attributes that are as they must be in the end. A state that
// cannot be read is an error that wraps envace.ErrWorld, and no wrong attribute.
func (s *wantingSession) right(ctx context.Context) (passed int, failed []string, err error) {
	state, err := stateOf(ctx, s.Session)
	if err != nil {
		return 0, nil, err
	}
	for at, want := range s.want {
		value, err := diff.Decode(want, diff.DefaultLimits())
		if err != nil {
			return 0, nil, fmt.Errorf("read what %s must be: %w", at, err)
		}
		if have, found := state.Lookup(at); found && diff.Equal(have, value) {
			passed++
		} else {
			failed = append(failed, at)
		}
	}
	slices.Sort(failed)
	return passed, failed, nil
}
