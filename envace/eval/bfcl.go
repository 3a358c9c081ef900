package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/envace"
)

// Conversation is a BFCL-style multi-turn task: what the user says turn by turn, and
// for each turn the reference calls. After a turn the world must be as the reference
// left it, and everything that the reference was answered must have been answered.
type Conversation struct {
	ID      string
	Classes []string         // of its world, sorted
	Config  json.RawMessage  // by class
	Turns   []string         // of the user; "" = only new tools
	Gold    [][]audit.Call   // by turn; none = nothing may be called
	Hidden  []string         // tools that the agent never gets
	Later   map[int][]string // tools that the agent gets with a turn
}

// bfclStepsPerTurn is how many outputs a turn may have (bfcl_eval's limit).
const bfclStepsPerTurn = 20

// moreTools is said where a turn brings tools and no words.
const moreTools = "There are more functions now. Please try again with them."

type bfclEntry struct {
	ID       string              `json:"id"`
	Question [][]envace.Message  `json:"question"`
	Config   json.RawMessage     `json:"initial_config"`
	Classes  []string            `json:"involved_classes"`
	Missed   map[string][]string `json:"missed_function"`
	Excluded []string            `json:"excluded_function"`
	Gold     [][]string          `json:"ground_truth"`
}

// ReadBFCL reads a file of BFCL multi-turn questions and its file of possible
// answers; functions describes the tools of each class. Tasks whose worlds need
// BFCL's long-context filling are refused by their name.
func ReadBFCL(questions, answers []byte, functions map[string][]Function) ([]Conversation, error) {
	entries, err := readLines[bfclEntry](questions, "the questions")
	if err != nil {
		return nil, err
	}
	solved, err := readLines[bfclEntry](answers, "the possible answers")
	if err != nil {
		return nil, err
	}
	gold := map[string][][]string{}
	for _, s := range solved {
		gold[s.ID] = s.Gold
	}
	out := make([]Conversation, len(entries))
	for i, e := range entries {
		answer, found := gold[e.ID]
		if !found {
			return nil, fmt.Errorf("task %s has no possible answer", e.ID)
		}
		if out[i], err = e.conversation(answer, functions); err != nil {
			return nil, fmt.Errorf("task %s: %w", e.ID, err)
		}
	}
	return out, nil
}

func (e bfclEntry) conversation(gold [][]string, functions map[string][]Function) (Conversation, error) {
	c := Conversation{ID: e.ID, Classes: slices.Sorted(slices.Values(e.Classes)), Config: e.Config, Hidden: e.Excluded, Later: map[int][]string{}}
	if strings.Contains(e.ID, "long_context") || strings.Contains(e.ID, "composite") {
		return c, errors.New("its world is filled up by BFCL's own code, which is not run here: use the base, miss_func and miss_param files")
	}
	if len(e.Question) != len(gold) {
		return c, fmt.Errorf("%d turns and %d answers", len(e.Question), len(gold))
	}
	var err error
	if c.Config, err = only(e.Config, c.Classes); err != nil { // one entry configures a class that is not there
		return c, fmt.Errorf("its configuration: %w", err)
	}
	parameters := map[string][]string{}
	for _, class := range c.Classes {
		if len(functions[class]) == 0 {
			return c, fmt.Errorf("class %s has no function descriptions", class)
		}
		for _, f := range functions[class] {
			parameters[f.Name] = parameterNames(f.Parameters)
		}
	}
	for i, messages := range e.Question {
		var said []string
		for _, m := range messages {
			said = append(said, m.Content)
		}
		c.Turns = append(c.Turns, strings.Join(said, "\n"))
		calls := []audit.Call{}
		for _, text := range gold[i] {
			call, err := ParsePythonCall(text, func(tool string) []string { return parameters[tool] })
			if err != nil {
				return c, fmt.Errorf("turn %d: %w", i+1, err)
			}
			calls = append(calls, call)
		}
		c.Gold = append(c.Gold, calls)
		if tools := e.Missed[strconv.Itoa(i)]; tools != nil {
			c.Later[i] = tools
		}
	}
	return c, nil
}

// Task is the conversation in its world. The environment has the tools of all its
// classes and starts from Config; its sessions tell their state.
func (c Conversation) Task(env audit.Environment, tools []audit.Tool, rules *audit.Rules) Task {
	kept := slices.DeleteFunc(slices.Clone(tools), func(t audit.Tool) bool {
		for _, later := range c.Later {
			if slices.Contains(later, t.Name) {
				return true
			}
		}
		return slices.Contains(c.Hidden, t.Name)
	})
	task := audit.Task{ID: c.ID, Prompt: c.Turns[0], Solution: slices.Concat(c.Gold...)}
	return Task{
		Task: task, Tools: kept, Rules: rules,
		Limits: envace.Limits{Turns: (bfclStepsPerTurn + 1) * len(c.Turns), UserTurns: len(c.Turns), ParallelCalls: 64},
		Begin: func() Sample {
			w := &bfclWorld{task: c, env: env, all: tools}
			return Sample{Source: w, User: w, Private: envace.Scripted(c.Turns[1:]), Grade: w.grade}
		},
	}
}

// bfclWorld is the world, the user and the grader of one rollout: the end of a turn
// is where the two worlds are compared.
type bfclWorld struct {
	task Conversation
	env  audit.Environment
	all  []audit.Tool

	model, gold audit.Session
	answered    []string // to the model, in all turns so far
	called      int      // in this turn
	outputs     int      // at the beginning of this turn
	turn        int      // that is being played
	fault       string   // of the first turn that went wrong
}

var (
	_ envace.Source = (*bfclWorld)(nil)
	_ envace.World  = (*bfclWorld)(nil)
	_ envace.User   = (*bfclWorld)(nil)
)

// Open implements envace.Source.
func (w *bfclWorld) Open(ctx context.Context, _ audit.Task) (envace.World, error) {
	var err error
	if w.model, err = w.env.Open(ctx, audit.Start{State: w.task.Config}); err != nil {
		return nil, fmt.Errorf("open the world of task %s: %w: %w", w.task.ID, envace.ErrWorld, err)
	}
	if w.gold, err = w.env.Open(ctx, audit.Start{State: w.task.Config}); err != nil {
		return nil, errors.Join(fmt.Errorf("open the reference's world of task %s: %w: %w", w.task.ID, envace.ErrWorld, err), w.model.Close())
	}
	return w, nil
}

// Answer implements envace.World.
func (w *bfclWorld) Answer(ctx context.Context, _ *envace.Transcript, call audit.Call, _ uint64) (envace.Answer, error) {
	seen, err := w.model.Call(ctx, call)
	switch {
	case err != nil:
		return envace.Answer{}, fmt.Errorf("call %s: %w: %w", call.Tool, envace.ErrWorld, err)
	case seen.Status == audit.StatusFault || seen.Status == audit.StatusUnknown:
		return envace.Answer{}, fmt.Errorf("call %s: %w: %s", call.Tool, envace.ErrWorld, seen.Raw)
	}
	w.called++
	w.answered = append(w.answered, string(seen.Raw))
	return envace.Answer{Call: call, Raw: seen.Raw}, nil
}

// Close implements envace.World.
func (w *bfclWorld) Close() error { return errors.Join(w.model.Close(), w.gold.Close()) }

// Next implements envace.User: it ends a turn. A conversation that went wrong is not
// gone on with, since nothing could mend it.
func (w *bfclWorld) Next(ctx context.Context, t *envace.Transcript, _ uint64) (string, error) {
	if err := w.endTurn(ctx, t); err != nil {
		return "", err
	}
	w.turn++
	if w.fault != "" || w.turn == len(w.task.Turns) {
		return "", nil
	}
	for _, tool := range w.all {
		if slices.Contains(w.task.Later[w.turn], tool.Name) {
			t.Tools = append(slices.Clip(t.Tools), tool)
		}
	}
	if text := w.task.Turns[w.turn]; text != "" {
		return text, nil
	}
	return moreTools, nil
}

func (w *bfclWorld) endTurn(ctx context.Context, t *envace.Transcript) error {
	outputs, called := 0, w.called
	for _, item := range t.Items {
		if item.Act != nil {
			outputs++
		}
	}
	steps := outputs - w.outputs
	w.outputs, w.called = outputs, 0
	gold := w.task.Gold[w.turn]
	wrong := func(format string, args ...any) {
		w.fault = fmt.Sprintf("turn %d: ", w.turn+1) + fmt.Sprintf(format, args...)
	}
	var wanted []string
	for _, call := range gold {
		seen, err := w.gold.Call(ctx, call)
		if err != nil {
			return fmt.Errorf("make reference call %s: %w", call.Tool, err)
		}
		if seen.Status == audit.StatusFault || seen.Status == audit.StatusUnknown {
			return fmt.Errorf("reference call %s broke its world: %s", call.Tool, seen.Raw)
		}
		wanted = append(wanted, string(seen.Raw))
	}
	switch {
	case len(gold) == 0 && called > 0:
		wrong("%d calls where none could help", called)
		return nil
	case len(gold) == 0:
		return nil
	case called == 0:
		wrong("no call was made")
		return nil
	case steps > bfclStepsPerTurn:
		wrong("%d outputs, at most %d", steps, bfclStepsPerTurn)
		return nil
	}
	differs, err := differingState(ctx, w.model, w.gold)
	if err != nil {
		return err
	}
	if differs != "" {
		wrong("the state differs from the reference's at %s", differs)
		return nil
	}
	if lacks := missing(wanted, w.answered); len(lacks) > 0 {
		wrong("%d of %d answers of the reference were never seen, such as %.200s", len(lacks), len(wanted), lacks[0])
	}
	return nil
}

// grade says how it went. A rollout that ended before its last turn did not do it.
func (w *bfclWorld) grade(_ context.Context, t *envace.Trajectory) (Verdict, error) {
	v := Verdict{}
	switch {
	case w.fault != "":
		v.Failed = []string{w.fault}
	case w.turn < len(w.task.Turns):
		v.Failed = []string{fmt.Sprintf("turn %d of %d: ended with %s", w.turn+1, len(w.task.Turns), t.Stop)}
	default:
		v.Success, v.Score = true, 1
	}
	return v, nil
}
