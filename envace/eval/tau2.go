package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/envace"
)

// Criteria are what a τ²-style task asks beside its terminal checks (facts/benchmarks
// 4): things to be told to the user, calls to be made, assertions for a judge.
type Criteria struct {
	Communicate []string
	Actions     []audit.Call
	Assertions  []string
	Basis       []string // the parts whose product is the reward
}

// The parts of a reward.
const (
	basisDB          = "DB"
	basisEnvironment = "ENV_ASSERTION"
	basisAction      = "ACTION"
	basisCommunicate = "COMMUNICATE"
	basisAssertion   = "NL_ASSERTION"
)

// Scenario is what a τ² task tells the user's side.
type Scenario struct {
	Criteria
	User string // instructions for who plays the user
}

// ReadTau2 reads a tasks.json as tau2-bench ships it, by task.
func ReadTau2(text []byte) (map[string]Scenario, error) {
	type call struct {
		Name      string          `json:"name"`
		Requestor string          `json:"requestor"`
		Arguments json.RawMessage `json:"arguments"`
		Compare   []string        `json:"compare_args"`
	}
	type source struct {
		ID       string          `json:"id"`
		Scenario json.RawMessage `json:"user_scenario"`
		Criteria struct {
			Actions     []call   `json:"actions"`
			Communicate []string `json:"communicate_info"`
			Assertions  []string `json:"nl_assertions"`
			Basis       []string `json:"reward_basis"`
		} `json:"evaluation_criteria"`
	}
	sources, err := readLines[source](text, "the tasks")
	if err != nil {
		return nil, err
	}
	known := []string{basisDB, basisEnvironment, basisAction, basisCommunicate, basisAssertion}
	out := map[string]Scenario{}
	for _, s := range sources {
		one := Scenario{User: string(s.Scenario), Criteria: Criteria{Communicate: s.Criteria.Communicate, Assertions: s.Criteria.Assertions, Basis: s.Criteria.Basis}}
		for _, part := range one.Basis {
			if !slices.Contains(known, part) {
				return nil, fmt.Errorf("task %s: the reward has an unknown part %q, not %s", s.ID, part, strings.Join(known, ", "))
			}
		}
		for _, a := range s.Criteria.Actions {
			arguments, err := only(a.Arguments, a.Compare)
			if err != nil {
				return nil, fmt.Errorf("task %s, action %s: %w", s.ID, a.Name, err)
			}
			one.Actions = append(one.Actions, audit.Call{Tool: a.Name, Arguments: arguments, Role: a.Requestor})
		}
		out[strings.ReplaceAll(s.ID, "~", "-")] = one
	}
	return out, nil
}

// only keeps the arguments that are compared; nil names mean all.
func only(arguments json.RawMessage, names []string) (json.RawMessage, error) {
	if names == nil {
		return arguments, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &all); err != nil {
		return nil, fmt.Errorf("read its arguments: %w", err)
	}
	for name := range all {
		if !slices.Contains(names, name) {
			delete(all, name)
		}
	}
	return json.Marshal(all)
}

// AssertFunc says whether an assertion holds of a conversation; an error of the
// infrastructure leaves it open.
type AssertFunc func(ctx context.Context, t *envace.Trajectory, assertion string) (bool, error)

// Grader adds the criteria to the terminal checks: success is the product of the
// parts of the basis, and a conversation that nobody ended has none. Without assert,
// assertions of the basis are not asked: a run says so in its notes.
func (c Criteria) Grader(checks GradeFunc, assert AssertFunc) GradeFunc {
	return func(ctx context.Context, t *envace.Trajectory) (Verdict, error) {
		v := Verdict{Success: true, Score: 1}
		if slices.Contains(c.Basis, basisDB) || slices.Contains(c.Basis, basisEnvironment) {
			var err error
			if v, err = checks(ctx, t); err != nil {
				return v, err
			}
		}
		fail := func(what string) { v.Success, v.Failed = false, append(v.Failed, what) }
		if t.Stop != envace.StopDone {
			fail("the conversation ended with " + string(t.Stop))
		}
		if slices.Contains(c.Basis, basisCommunicate) {
			for _, info := range untold(t, c.Communicate) {
				fail(basisCommunicate + " " + info)
			}
			v.Initial = v.Initial && len(c.Communicate) == 0
		}
		if slices.Contains(c.Basis, basisAction) {
			for _, call := range unmade(t, c.Actions) {
				fail(basisAction + " " + call.Tool)
			}
			v.Initial = v.Initial && len(c.Actions) == 0
		}
		if slices.Contains(c.Basis, basisAssertion) && assert != nil {
			for _, assertion := range c.Assertions {
				holds, err := assert(ctx, t, assertion)
				if err != nil {
					return v, err
				}
				if !holds {
					fail(basisAssertion + " " + assertion)
				}
			}
		}
		return v, nil
	}
}

// untold are the texts that no reply to the user contains; case and the commas of
// numbers do not matter.
func untold(t *envace.Trajectory, texts []string) []string {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), ",", "") }
	var said strings.Builder
	for _, item := range t.Items {
		if item.Act != nil {
			said.WriteString(plain(item.Act.Reply) + "\n")
		}
	}
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(said.String(), plain(text)) })
}

// unmade are the reference calls that were not made: by name and, of the arguments,
// those that the reference gives.
func unmade(t *envace.Trajectory, calls []audit.Call) []audit.Call {
	return slices.DeleteFunc(slices.Clone(calls), func(wanted audit.Call) bool {
		return slices.ContainsFunc(t.Calls(), func(made *envace.Answer) bool {
			return made.Call.Tool == wanted.Tool && holds(made.Call.Arguments, wanted.Arguments)
		})
	})
}

// holds says whether the arguments that are wanted are among those that were made.
func holds(made, wanted json.RawMessage) bool {
	var have, want map[string]json.RawMessage
	if json.Unmarshal(made, &have) != nil || json.Unmarshal(wanted, &want) != nil {
		return string(made) == string(wanted)
	}
	for name, value := range want {
		a, err1 := diff.Decode(have[name], diff.DefaultLimits())
		b, err2 := diff.Decode(value, diff.DefaultLimits())
		if err1 != nil || err2 != nil || !diff.Equal(a, b) {
			return false
		}
	}
	return true
}

// Notes say what of a set of scenarios is not asked in a run.
func Notes(scenarios map[string]Scenario, judged, talked bool) string {
	var notes []string
	unasked := 0
	for _, s := range scenarios {
		if slices.Contains(s.Basis, basisAssertion) && len(s.Assertions) > 0 {
			unasked++
		}
	}
	if unasked > 0 && !judged {
		notes = append(notes, fmt.Sprintf("the assertions of %d tasks are not asked: no --judge", unasked))
	}
	if !talked {
		notes = append(notes, "nobody plays the user: the scenario is the prompt")
	}
	return strings.Join(notes, "; ")
}
