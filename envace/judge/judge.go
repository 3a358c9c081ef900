// Package judge grades conversations by checklists, item by item, with a model
// behind an OpenAI-compatible server. A verdict is pass, fail or unknown; unknown,
// and a server that fails or writes nonsense, is asked again and then leaves the
// trajectory without a grade. It is never a fail (facts/envace.md, trap 7).
//
//	trajectory ─► user turns ─► item by item: depends on a failed one? fail
//	                             else the model, up to 1 + Retries times
//	turn = Σ weight·passed / Σ weight; a turn whose required items did not all pass
//	ends the count; R = Σ turns / number of turns
package judge

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"understudy/audit"
	"understudy/envace"
)

//go:embed prompts/judge.md
var instruction string

// Verdict is what a judge says of one item.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown"
)

// AskFunc asks a model for JSON that fits a schema. An *audit.Error other than of the
// infrastructure is one that asking again cannot mend.
type AskFunc func(ctx context.Context, messages []envace.Message, schema json.RawMessage, temperature float64) (string, error)

// Judge is a grader. It is safe for concurrent use.
type Judge struct {
	Ask         AskFunc
	Checklists  map[string]Checklist // by task
	Temperature float64
	Retries     int // further questions after an unknown; 0 = 2, negative = none
	// MaxUnknown is the share of trajectories without a grade over which Grade is an
	// error, once there are 20 of them: training would go on with what is easy to
	// judge. 0 = a quarter.
	MaxUnknown float64

	mu    sync.Mutex
	stats Stats
}

var _ envace.Grader = (*Judge)(nil)

// Stats counts what a judge did.
type Stats struct {
	Trajectories int
	Ungraded     int
	Questions    int // asked, retries included
	Retried      int
}

// Stats are the counts so far.
func (j *Judge) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

const (
	defaultRetries    = 2
	defaultMaxUnknown = 0.25
	fewTrajectories   = 20 // below these a share says nothing
)

// Grade implements envace.Grader.
func (j *Judge) Grade(ctx context.Context, t *envace.Trajectory) (envace.Grade, error) {
	grade, err := j.grade(ctx, t)
	if err != nil {
		return grade, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stats.Trajectories++
	if grade.Unknown {
		j.stats.Ungraded++
	}
	if n, of := j.stats.Ungraded, j.stats.Trajectories; of >= fewTrajectories && float64(n) > cmp.Or(j.MaxUnknown, defaultMaxUnknown)*float64(of) {
		return grade, &audit.Error{
			Code: audit.CodeInfrastructure, Message: fmt.Sprintf("%d of %d trajectories have no grade, the last one since %s", n, of, grade.Reason),
			Hint: "look at the judge's server; the run goes on from its last checkpoint",
		}
	}
	return grade, nil
}

func (j *Judge) grade(ctx context.Context, t *envace.Trajectory) (envace.Grade, error) {
	if grade, ungraded := envace.Ungraded(t); ungraded {
		return grade, nil
	}
	list, found := j.Checklists[t.Task.ID]
	if !found {
		return envace.Grade{}, &audit.Error{Code: audit.CodeUnprocessable, Message: "task " + t.Task.ID + " has no checklist", Hint: "label it, or train without it"}
	}
	if err := list.Validate(); err != nil {
		return envace.Grade{}, fmt.Errorf("checklist of task %s: %w", t.Task.ID, err)
	}
	verdicts := map[string]Verdict{}
	grade := envace.Grade{Success: true}
	turns := turnsOf(t)
	for number, items := range list {
		if number >= len(turns) {
			grade.Success = false
			break // never reached: 0
		}
		score, weight, onward := 0.0, 0.0, true
		for _, item := range items {
			verdict, err := j.decide(ctx, item, turns, number, verdicts)
			if err != nil {
				return grade, err
			}
			if verdict == Unknown {
				return envace.Grade{Unknown: true, Reason: "the judge cannot decide item " + item.ID}, nil
			}
			verdicts[item.ID] = verdict
			weight += item.Weight
			if verdict == Pass {
				score += item.Weight
				continue
			}
			grade.Success = false
			onward = onward && !item.Required
		}
		grade.Reward += score / weight / float64(len(list))
		if !onward {
			break
		}
	}
	return grade, nil
}

// turnsOf are the finished turns: what was said and done from each text of the user
// to the next. A turn that was cut short, by a limit or by nonsense, is none.
func turnsOf(t *envace.Trajectory) [][]envace.Item {
	turns := [][]envace.Item{{{User: t.Task.Prompt}}}
	for _, item := range t.Items {
		if item.Act == nil && item.Answer == nil {
			turns = append(turns, nil)
		}
		turns[len(turns)-1] = append(turns[len(turns)-1], item)
	}
	if t.Stop != envace.StopDone && t.Stop != envace.StopUserTurns {
		return turns[:len(turns)-1]
	}
	return turns
}

// decide gives the verdict on one item.
func (j *Judge) decide(ctx context.Context, item Item, turns [][]envace.Item, number int, earlier map[string]Verdict) (Verdict, error) {
	for _, on := range item.Dependence {
		if earlier[on] != Pass {
			return Fail, nil // of a finished turn: unknown ones end the grading
		}
	}
	messages, err := question(item, turns, number)
	if err != nil {
		return Unknown, err
	}
	retries := max(cmp.Or(j.Retries, defaultRetries), 0)
	for try := range 1 + retries {
		verdict, err := j.once(ctx, messages, try > 0)
		if err != nil || verdict != Unknown {
			return verdict, err
		}
	}
	return Unknown, nil
}

// answerSchema is what the model is asked for.
const answerSchema = `{"type":"object","additionalProperties":false,"required":["reason","verdict"],` +
	`"properties":{"reason":{"type":"string"},"verdict":{"type":"string","enum":["pass","fail","unknown"]}}}`

// once asks one time. What the server fails to say is Unknown; an error is what
// asking again cannot mend.
func (j *Judge) once(ctx context.Context, messages []envace.Message, again bool) (Verdict, error) {
	j.mu.Lock()
	j.stats.Questions++
	if again {
		j.stats.Retried++
	}
	j.mu.Unlock()
	text, err := j.Ask(ctx, messages, json.RawMessage(answerSchema), j.Temperature)
	if ctx.Err() != nil {
		return Unknown, context.Cause(ctx)
	}
	if e, ok := errors.AsType[*audit.Error](err); ok && e.Code != audit.CodeInfrastructure {
		return Unknown, fmt.Errorf("ask the judge: %w", err)
	}
	if err != nil {
		return Unknown, nil //nolint:nilerr // a server that fails has not said no
	}
	return read(text), nil
}

// read is strict: one object, a verdict of the list, after the model's thinking, if
// its server leaves that in the text. Everything else is unknown.
func read(text string) Verdict {
	var answer struct {
		Reason  *string `json:"reason"`
		Verdict Verdict `json:"verdict"`
	}
	decoder := json.NewDecoder(strings.NewReader(envace.AfterThinking(text)))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&answer) != nil || decoder.More() || answer.Reason == nil {
		return Unknown
	}
	switch answer.Verdict {
	case Pass, Fail:
		return answer.Verdict
	case Unknown:
	}
	return Unknown
}

// question is what the model reads: the criterion, what came before, and the turn.
func question(item Item, turns [][]envace.Item, number int) ([]envace.Message, error) {
	criterion, err := json.MarshalIndent(struct {
		Question string   `json:"question"`
		Focus    Focus    `json:"about"`
		Pass     string   `json:"passes_if"`
		Failures []string `json:"examples_of_failure,omitempty"`
		// What another conversation said, from which the criterion was made.
		Reference []string `json:"for_example,omitempty"`
	}{item.Question, item.Focus, item.Pass, item.Failures, item.Reference}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write item %s: %w", item.ID, err)
	}
	var before []envace.Item
	for _, turn := range turns[:number] {
		before = append(before, turn...)
	}
	thinking := item.Focus == FocusThinking
	earlier, err := envace.Narrate(before, false)
	if err != nil {
		return nil, err
	}
	turn, err := envace.Narrate(turns[number], thinking)
	if err != nil {
		return nil, err
	}
	return []envace.Message{
		{Role: "system", Content: instruction},
		{Role: "user", Content: fmt.Sprintf("The criterion:\n%s\n\nBefore the turn:\n%s\nThe turn:\n%s", criterion, earlier, turn)},
	}, nil
}
