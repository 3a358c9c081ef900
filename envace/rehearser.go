package envace

import (
	"context"
	"encoding/json"
	"errors"

	"understudy/audit"
)

// Rehearser is the policy in the REHEARSE role alone, as an audit asks it.
type Rehearser struct {
	Policy Policy
	Read   func(o Output) Rehearsed
	Max    int // tokens of an answer; 0 = the paper's
	Greedy bool
}

var _ audit.Rehearser = Rehearser{}

// Rehearse implements audit.Rehearser. A prompt that the policy cannot read is an
// unavailable answer, so that it is masked and counted.
func (r Rehearser) Rehearse(ctx context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
	t := &Transcript{Task: audit.Task{Prompt: firstPrompt(req.Prompt)}, Tools: req.Tools}
	for _, turn := range req.History {
		t.Items = append(t.Items, Item{Act: &Act{Calls: []audit.Call{turn.Call}}}, Item{Answer: &Answer{Call: turn.Call, Raw: turn.Answer}})
	}
	t.Items = append(t.Items, Item{Act: &Act{Calls: []audit.Call{req.Call}}})
	limits := Limits{Response: r.Max}.WithDefaults()
	answers := make([]audit.Rehearsal, 0, max(req.K, 1))
	for i := range cap(answers) {
		output, err := r.Policy.Generate(ctx, Request{
			Transcript: t, Role: audit.RehearseRole, Call: req.Call, Seed: req.Seed + uint64(i), Greedy: r.Greedy, Max: limits.Response,
		})
		switch {
		case errors.Is(err, ErrPrompt):
			answers = append(answers, audit.Rehearsal{Unavailable: err.Error()})
		case err != nil:
			return nil, err
		default:
			answers = append(answers, r.Read(output).Rehearsal)
		}
	}
	return answers, nil
}

// firstPrompt is what the user said first in an episode's messages.
func firstPrompt(messages []byte) string {
	var list []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	if json.Unmarshal(messages, &list) != nil {
		return ""
	}
	for _, m := range list {
		if m.Role == "user" {
			return m.Content
		}
	}
	return ""
}
