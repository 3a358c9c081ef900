package synth

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

//go:embed prompts/call.md
var callPrompt string

//go:embed prompts/judge.md
var judgePrompt string

// Score counts how the calls of a trial were judged.
type Score struct {
	Steps   int `json:"steps"`
	Pass    int `json:"pass"`
	Warning int `json:"warning"`
	Fail    int `json:"fail"`
	Raised  int `json:"raised"` // the code itself broke: no judge is needed
}

// Rate is the share of passed steps; a step whose code broke is a step. Compat is
// what EnvScaler's code computes instead: a warning passes, and broken steps are
// left out. A trial without steps has rate 0.
func (s Score) Rate(compat bool) float64 {
	passed, steps := s.Pass, s.Steps
	if compat {
		passed, steps = s.Pass+s.Warning, s.Steps-s.Raised
	}
	if steps == 0 {
		return 0
	}
	return float64(passed) / float64(steps)
}

// Step is one call of a trial, what came of it, and what was thought of it.
type Step struct {
	Tool      string       `json:"tool"`
	Arguments string       `json:"arguments"`
	Expect    string       `json:"expect"` // success or refusal
	Why       string       `json:"why"`
	Status    audit.Status `json:"status,omitempty"`
	Answer    string       `json:"answer,omitempty"`
	Delta     string       `json:"delta,omitempty"`
	Verdict   string       `json:"verdict,omitempty"` // pass, warning, fail or raised
	Reason    string       `json:"reason,omitempty"`
}

// The verdicts of a step.
const (
	verdictPass    = "pass"
	verdictWarning = "warning"
	verdictFail    = "fail"
	verdictRaised  = "raised"
)

// stepBatch is how many calls the testing agent proposes on one look at the records.
const stepBatch = 5

// shownState is how many bytes of the records a prompt shows.
const shownState = 12 << 10

// trial lets the testing agent make calls on the draft, one after the other on one
// world, and the checking agent judge each of them.
func trial(ctx context.Context, a *author, d draft, steps int) (Score, []Step, error) {
	var score Score
	var made []Step
	err := d.try(ctx, func(env *starlark.ChildEnvironment) error {
		session, err := env.Open(ctx, audit.Start{})
		if err != nil {
			return err
		}
		for len(made) < steps && err == nil {
			var proposed []Step
			if proposed, err = propose(ctx, a, env, session, made); err != nil {
				break
			}
			for _, s := range proposed[:min(len(proposed), stepBatch, steps-len(made))] {
				if err = s.run(ctx, a, d, session); err != nil {
					break
				}
				made = append(made, s)
				score = score.count(s.Verdict)
			}
		}
		return errors.Join(err, session.Close())
	})
	return score, made, err
}

func (s Score) count(verdict string) Score {
	s.Steps++
	switch verdict {
	case verdictPass:
		s.Pass++
	case verdictWarning:
		s.Warning++
	case verdictRaised:
		s.Raised++
	default:
		s.Fail++
	}
	return s
}

// propose asks the testing agent for the next calls.
func propose(ctx context.Context, a *author, env audit.Environment, session audit.Session, made []Step) ([]Step, error) {
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, err
	}
	state, err := session.(audit.Stater).State(ctx, "")
	if err != nil {
		return nil, err
	}
	var user strings.Builder
	user.WriteString("The tools:\n")
	for _, t := range tools {
		fmt.Fprintf(&user, "%s (%s): %s\n  %s\n", t.Name, t.Effect, t.Description, t.Input)
	}
	fmt.Fprintf(&user, "\nThe records:\n%s\n\nCalled before:\n", shorten(string(state), shownState))
	for _, s := range made {
		fmt.Fprintf(&user, "%s %s: expected %s, got %s\n", s.Tool, s.Arguments, s.Expect, s.Status)
	}
	fmt.Fprintf(&user, "\nPropose %d calls.", stepBatch)
	type answer struct {
		Calls []Step `json:"calls"`
	}
	got, err := ask(ctx, a, Prompt{System: callPrompt, User: user.String(), Schema: callSchema(), Temperature: 0.5}, func(got *answer) error {
		if len(got.Calls) == 0 {
			return errors.New("it proposes no call")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("propose calls: %w", err)
	}
	return got.Calls, nil
}

func callSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":["calls"],"properties":{"calls":{"type":"array","items":{` +
		`"type":"object","additionalProperties":false,"required":["tool","arguments","expect","why"],"properties":{` +
		`"tool":{"type":"string"},"arguments":{"type":"string"},"expect":{"enum":["success","refusal"]},"why":{"type":"string"}}}}}}`)
}

// run makes the call and has it judged.
func (s *Step) run(ctx context.Context, a *author, d draft, session audit.Session) error {
	seen, err := session.Call(ctx, audit.Call{Tool: s.Tool, Arguments: json.RawMessage(s.Arguments)})
	if err != nil {
		return fmt.Errorf("call %s: %w", s.Tool, err)
	}
	delta, err := json.Marshal(seen.Delta)
	if err != nil {
		return fmt.Errorf("encode what %s changed: %w", s.Tool, err)
	}
	s.Status, s.Answer, s.Delta = seen.Status, shorten(string(seen.Raw), shownState), shorten(string(delta), shownState)
	if seen.Status == audit.StatusFault || seen.Status == audit.StatusUnknown {
		s.Verdict, s.Reason = verdictRaised, s.Answer
		return nil
	}
	return s.judge(ctx, a, d)
}

func (s *Step) judge(ctx context.Context, a *author, d draft) error {
	design, code := "no such tool is planned", ""
	for _, t := range d.tools {
		if t.operation.Name == s.Tool {
			text, err := json.Marshal(t.operation)
			if err != nil {
				return fmt.Errorf("encode the design of %s: %w", s.Tool, err)
			}
			design, code = string(text), t.code
		}
	}
	user := fmt.Sprintf("The design: %s\nThe rules:\n- %s\nThe code:\n%s\n\nThe call: %s %s\nThe answer (%s): %s\nThe change: %s",
		design, strings.Join(d.plan.Rules, "\n- "), code, s.Tool, s.Arguments, s.Status, s.Answer, s.Delta)
	type answer struct {
		Verdict string `json:"verdict"`
		Reason  string `json:"reason"`
	}
	got, err := ask(ctx, a, Prompt{System: judgePrompt, User: user, Schema: judgeSchema()}, func(got *answer) error {
		if got.Verdict != verdictPass && got.Verdict != verdictWarning && got.Verdict != verdictFail {
			return fmt.Errorf("the verdict is pass, warning or fail, not %q", got.Verdict)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("judge a call of %s: %w", s.Tool, err)
	}
	s.Verdict, s.Reason = got.Verdict, got.Reason
	return nil
}

func judgeSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":["verdict","reason"],"properties":{` +
		`"verdict":{"enum":["pass","warning","fail"]},"reason":{"type":"string"}}}`)
}

// mend has every tool whose calls failed written anew, and returns how many were.
func mend(ctx context.Context, a *author, d draft, made []Step) (draft, int, error) {
	mended := 0
	for _, t := range d.tools {
		var faults strings.Builder
		for _, s := range made {
			if s.Tool == t.operation.Name && (s.Verdict == verdictFail || s.Verdict == verdictRaised) {
				fmt.Fprintf(&faults, "\n- %s answered (%s) %s: %s", s.Arguments, s.Status, shorten(s.Answer, 500), s.Reason)
			}
		}
		if faults.Len() == 0 {
			continue
		}
		better, err := writeTool(ctx, a, d, t.operation, "\n\nIts code now:\n"+t.code+"\n\nWhat is wrong with it:"+faults.String())
		if errors.Is(err, ErrBudget) || ctx.Err() != nil {
			return d, mended, err
		}
		if err == nil { // else the old code stays, and is judged again
			d = better
			mended++
		}
	}
	return d, mended, nil
}
