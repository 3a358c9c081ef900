package tiny

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/envace"
)

// Goal is what a task's user wants, as calls: all of Calls, or, when Refused is
// there, that one first and Calls only if it is refused.
type Goal struct {
	Refused *audit.Call
	Calls   []audit.Call
}

// GoalOf reads the facts that a task gives of its user: "A", "A ; B" or "A else B",
// each a tool and its arguments without the user's own id.
func GoalOf(task audit.Task, tools []audit.Tool) (Goal, error) {
	var facts struct {
		User string `json:"user"`
		Goal string `json:"goal"`
	}
	if err := json.Unmarshal(task.User, &facts); err != nil {
		return Goal{}, fmt.Errorf("read what the user of task %s wants: %w", task.ID, err)
	}
	var goal Goal
	text := facts.Goal
	if first, other, found := strings.Cut(text, " else "); found {
		call, err := goalCall(first, facts.User, tools)
		if err != nil {
			return goal, err
		}
		goal.Refused, text = &call, other
	}
	for part := range strings.SplitSeq(text, " ; ") {
		call, err := goalCall(part, facts.User, tools)
		if err != nil {
			return goal, err
		}
		goal.Calls = append(goal.Calls, call)
	}
	return goal, nil
}

func goalCall(text, user string, tools []audit.Tool) (audit.Call, error) {
	words := strings.Fields(text)
	for _, tool := range tools {
		if len(words) == 0 || tool.Name != words[0] {
			continue
		}
		var schema struct {
			Required []string `json:"required"`
		}
		if err := json.Unmarshal(tool.Input, &schema); err != nil {
			return audit.Call{}, fmt.Errorf("read the parameters of %s: %w", tool.Name, err)
		}
		if len(schema.Required) != len(words) {
			return audit.Call{}, fmt.Errorf("goal %q has %d arguments, %s takes %d beside the user", text, len(words)-1, tool.Name, len(schema.Required)-1)
		}
		arguments := append([]string{user}, words[1:]...)
		var out bytes.Buffer
		for i, name := range schema.Required {
			fmt.Fprintf(&out, ",%q:%q", name, arguments[i])
		}
		return audit.Call{Tool: tool.Name, Arguments: json.RawMessage("{" + out.String()[1:] + "}")}, nil
	}
	return audit.Call{}, fmt.Errorf("goal %q: no such tool", text)
}

// Checklist grades a trajectory by what its transcript says, as a judge does who
// has no environment: what was asked for was called and answered without an error,
// and nothing else was written. It believes the answers, so that a rehearsal that
// invents a success is paid for it; that is the imagination gap.
type Checklist struct {
	Tools []audit.Tool
	Rules *audit.Rules
}

var _ envace.Grader = Checklist{}

// Grade implements envace.Grader.
func (c Checklist) Grade(_ context.Context, t *envace.Trajectory) (envace.Grade, error) {
	if grade, ungraded := envace.Ungraded(t); ungraded {
		return grade, nil
	}
	goal, err := GoalOf(t.Task, c.Tools)
	if err != nil {
		return envace.Grade{}, err
	}
	done, extra := 0, false
	wanted := goal.Calls
	if goal.Refused != nil {
		if made, ok := c.outcome(t, *goal.Refused); made && ok {
			wanted = []audit.Call{*goal.Refused} // the transcript says that the first wish came true
		}
	}
	for _, call := range wanted {
		if made, ok := c.outcome(t, call); made && ok {
			done++
		}
	}
	for _, answer := range t.Calls() {
		extra = extra || c.writes(answer.Call.Tool) && !among(answer.Call, append(wanted, goal.maybe()...)) && c.succeeded(answer)
	}
	if extra || t.Stop != envace.StopDone {
		return envace.Grade{}, nil
	}
	return envace.Grade{Reward: float64(done) / float64(len(wanted)), Success: done == len(wanted)}, nil
}

func (g Goal) maybe() []audit.Call {
	if g.Refused == nil {
		return nil
	}
	return []audit.Call{*g.Refused}
}

// outcome says whether the call was made, and whether it was ever answered by a success.
func (c Checklist) outcome(t *envace.Trajectory, call audit.Call) (made, ok bool) {
	for _, answer := range t.Calls() {
		if audit.CallDigest(answer.Call) == audit.CallDigest(call) {
			made, ok = true, ok || c.succeeded(answer)
		}
	}
	return made, ok
}

func (c Checklist) succeeded(a *envace.Answer) bool {
	return c.Rules.Of(a.Call.Tool).Read(a.Raw).Outcome.Class != audit.Failed
}

func (c Checklist) writes(tool string) bool {
	for _, t := range c.Tools {
		if t.Name == tool {
			return t.Effect == audit.Write
		}
	}
	return false
}

func among(call audit.Call, calls []audit.Call) bool {
	for _, c := range calls {
		if audit.CallDigest(c) == audit.CallDigest(call) {
			return true
		}
	}
	return false
}
