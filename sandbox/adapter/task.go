package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
)

// Task is a declared task of a foreign environment: what is wanted, a reference
// solution, and checks of the final state by reads. ScaleEnv's verifiable tasks
// have this form.
type Task struct {
	ID       string          `json:"id"`
	Prompt   string          `json:"prompt,omitempty"`
	Seeding  json.RawMessage `json:"seeding,omitempty"` // for the server's own reset
	Setup    []audit.Call    `json:"setup,omitempty"`   // made when the episode starts
	Solution []audit.Call    `json:"solution,omitempty"`
	Checks   []Check         `json:"checks,omitempty"`
}

// Check is one condition on the final state: what a read answers.
type Check struct {
	Call    audit.Call      `json:"call"`
	At      string          `json:"at,omitempty"`      // JSON Pointer into the answer; "" = the whole
	Equals  json.RawMessage `json:"equals,omitempty"`  // as JSON: 25 equals 25.0
	Absent  bool            `json:"absent,omitempty"`  // nothing is there
	Refused audit.Family    `json:"refused,omitempty"` // the read is refused with this family
}

func (t Task) task() audit.Task {
	out := audit.Task{ID: t.ID, Prompt: t.Prompt, Setup: t.Setup, Solution: t.Solution}
	for _, c := range t.Checks {
		params, err := json.Marshal(c)
		if err != nil {
			params = nil // a declaration that was read from JSON always encodes
		}
		out.Checks = append(out.Checks, audit.TaskCheck{Check: c.Call.Tool, Params: params})
	}
	return out
}

// validate lists the faults of tasks and probes against the tools.
func (c Config) validate(effects map[string]audit.Effect) []error {
	var faults []error
	for name := range c.Tools {
		if _, known := effects[name]; !known {
			faults = append(faults, fmt.Errorf("tools: the server offers no tool %q", name))
		}
	}
	for i, p := range c.Probes {
		if err := p.validate(i, effects); err != nil {
			faults = append(faults, err)
		}
	}
	seen := map[string]bool{}
	for i, t := range c.Tasks {
		where := fmt.Sprintf("tasks[%d]", i)
		if t.ID == "" || seen[t.ID] {
			faults = append(faults, fmt.Errorf("%s: needs an id of its own, not %q", where, t.ID))
		}
		seen[t.ID] = true
		faults = append(faults, t.validate(where, effects)...)
	}
	return faults
}

func (t Task) validate(where string, effects map[string]audit.Effect) []error {
	var faults []error
	for _, call := range append(append([]audit.Call(nil), t.Setup...), t.Solution...) {
		if _, known := effects[call.Tool]; !known {
			faults = append(faults, fmt.Errorf("%s: no tool %q", where, call.Tool))
		}
	}
	for i, c := range t.Checks {
		effect, known := effects[c.Call.Tool]
		switch {
		case !known:
			faults = append(faults, fmt.Errorf("%s.checks[%d]: no tool %q", where, i, c.Call.Tool))
		case effect == audit.Write:
			faults = append(faults, fmt.Errorf("%s.checks[%d]: tool %s writes; a check must read", where, i, c.Call.Tool))
		case c.Equals == nil && !c.Absent && c.Refused == "":
			faults = append(faults, fmt.Errorf("%s.checks[%d]: says nothing; give equals, absent or refused", where, i))
		}
	}
	return faults
}

// setup brings a fresh episode to its task's start.
func (s *session) setup(ctx context.Context) error {
	for i, call := range s.task.Setup {
		reply, err := s.episode.Call(ctx, call.Tool, orEmpty(call.Arguments))
		if err != nil {
			return err
		}
		if reply.Status != audit.StatusOK {
			return fmt.Errorf("setup call %d of task %s, %s: %s %s", i+1, s.task.ID, call.Tool, reply.Status, brief(reply.Raw))
		}
	}
	var err error
	s.initial, err = s.verify(ctx)
	return err
}

func orEmpty(arguments json.RawMessage) json.RawMessage {
	if len(arguments) == 0 {
		return json.RawMessage(`{}`)
	}
	return arguments
}

func brief(raw []byte) string {
	text := strings.ToValidUTF8(string(raw[:min(len(raw), 120)]), "")
	if len(raw) > 120 {
		text += "…"
	}
	return text
}

// verify makes the reads of the task's checks and says which hold.
func (s *session) verify(ctx context.Context) ([]bool, error) {
	holds := make([]bool, len(s.task.Checks))
	for i, c := range s.task.Checks {
		reply, err := s.episode.Call(ctx, c.Call.Tool, orEmpty(c.Call.Arguments))
		if err != nil {
			return nil, err
		}
		if err := reply.silence(); err != nil {
			return nil, fmt.Errorf("check %d: %w", i+1, err)
		}
		answer := s.environment.rules.Of(c.Call.Tool).Read(reply.Raw)
		if reply.Status == audit.StatusOK && !answer.Valid { // nothing is known to be absent from it
			return nil, fmt.Errorf("check %d: the answer of %s cannot be read: %s", i+1, c.Call.Tool, answer.Message)
		}
		holds[i] = c.holds(reply, answer.Body)
	}
	return holds, nil
}

func (c Check) holds(reply Reply, body diff.Value) bool {
	if c.Refused != "" {
		return reply.Error != nil && reply.Error.Family == c.Refused
	}
	if reply.Status != audit.StatusOK {
		return false
	}
	at, found := body.Lookup(c.At)
	if c.Absent {
		return !found
	}
	want, err := diff.Decode(c.Equals, diff.Limits{})
	return err == nil && found && diff.Equal(want, at)
}

// text says what a check asks, for people.
func (c Check) text() string {
	switch {
	case c.Refused != "":
		return fmt.Sprintf("%s%s is refused with %s", c.Call.Tool, c.Call.Arguments, c.Refused)
	case c.Absent:
		return fmt.Sprintf("%s%s has nothing at %q", c.Call.Tool, c.Call.Arguments, c.At)
	}
	return fmt.Sprintf("%s%s has %s at %q", c.Call.Tool, c.Call.Arguments, c.Equals, c.At)
}
