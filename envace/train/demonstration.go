package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/tiny"
)

// demonstrator writes down how tasks are solved in the sandbox, for the warm start:
// ACT's calls of a reference solution and, for REHEARSE, what the sandbox answered.
type demonstrator struct {
	format  tiny.Format
	env     audit.Environment
	tools   []audit.Tool
	values  map[string][]string // of each argument, over all tasks
	explore float64
	// memories is the share that begins with a rehearsal memory; rules read its answers.
	memories float64
	rules    *audit.Rules
	context  int // tokens of a row at most
}

func newDemonstrator(format tiny.Format, c Config, tools []audit.Tool) *demonstrator {
	w := c.Recipe.WarmStart
	d := &demonstrator{format: format, env: c.Environment, tools: tools, values: map[string][]string{}, explore: w.Explore, memories: w.Memories, rules: c.Rules, context: c.Recipe.Model.Context}
	seen := map[[2]string]bool{}
	for _, task := range c.Train {
		for _, call := range task.Solution {
			for name, value := range textArguments(call) {
				if key := [2]string{name, value}; !seen[key] {
					seen[key] = true
					d.values[name] = append(d.values[name], value)
				}
			}
		}
	}
	for _, values := range d.values {
		slices.Sort(values)
	}
	return d
}

func textArguments(call audit.Call) map[string]string {
	var arguments map[string]string
	_ = json.Unmarshal(call.Arguments, &arguments) // arguments of other kinds are not varied
	return arguments
}

// step is one call of a demonstration, and whether ACT is to imitate it.
type step struct {
	call    audit.Call
	imitate bool
}

// steps are the calls of a demonstration: sometimes one at random, which only
// REHEARSE learns from; of "A else B" sometimes A first; then the solution.
func (d *demonstrator) steps(task audit.Task, random *rand.Rand) ([]step, error) {
	var steps []step
	if random.Float64() < d.explore {
		steps = append(steps, step{d.atRandom(task, random), false})
	}
	goal, err := tiny.GoalOf(task, d.tools)
	if err != nil {
		return nil, err
	}
	if goal.Refused != nil && random.Float64() < 0.5 {
		steps = append(steps, step{*goal.Refused, true})
	}
	for _, call := range task.Solution {
		steps = append(steps, step{call, true})
	}
	return steps, nil
}

// atRandom is a call of the task's with one argument exchanged for another value
// that it has elsewhere: most of these are refused.
func (d *demonstrator) atRandom(task audit.Task, random *rand.Rand) audit.Call {
	call := task.Solution[random.IntN(len(task.Solution))]
	var names []string
	for name := range textArguments(call) {
		names = append(names, name)
	}
	if len(names) == 0 {
		return call
	}
	slices.Sort(names)
	name := names[random.IntN(len(names))]
	old, _ := json.Marshal(textArguments(call)[name])                          // a string
	other, _ := json.Marshal(d.values[name][random.IntN(len(d.values[name]))]) // a string
	call.Arguments = bytes.Replace(call.Arguments, append([]byte(`"`+name+`":`), old...), append([]byte(`"`+name+`":`), other...), 1)
	return call
}

// row demonstrates one task.
func (d *demonstrator) row(ctx context.Context, task audit.Task, random *rand.Rand) (r row, err error) {
	steps, err := d.steps(task, random)
	if err != nil {
		return r, err
	}
	if d.memories > 0 && random.Float64() < d.memories {
		memory, err := d.memory(ctx, task, random)
		if err != nil {
			return r, err
		}
		if r, err = d.shown(ctx, task, steps, memory); err != nil || len(r.tokens) <= d.context {
			return r, err
		}
	}
	return d.shown(ctx, task, steps, "")
}

// shown is the row of given steps, read with a memory.
func (d *demonstrator) shown(ctx context.Context, task audit.Task, steps []step, memory string) (r row, err error) {
	calls := make([]audit.Call, len(steps))
	for i, s := range steps {
		calls[i] = s.call
	}
	turns, err := answered(ctx, d.env, task, calls)
	if err != nil {
		return r, fmt.Errorf("demonstrate task %s: %w", task.ID, err)
	}
	t := &envace.Transcript{Task: task, Memory: memory, Tools: d.tools}
	end := d.format.Vocabulary.End()
	for i, s := range steps {
		tokens, err := d.format.CallTokens(s.call)
		if err != nil {
			return r, err
		}
		if err := d.say(&r, t, audit.ActRole, append(tokens, end), s.imitate); err != nil {
			return r, err
		}
		t.Items = append(t.Items, envace.Item{Act: &envace.Act{Calls: []audit.Call{s.call}}})
		if t.Memory == "" { // REHEARSE does not read a memory: its prompt is another row
			if err := d.say(&r, t, audit.RehearseRole, append(d.format.AnswerTokens(turns[i].Answer), end), true); err != nil {
				return r, err
			}
		}
		t.Items = append(t.Items, envace.Item{Answer: &envace.Answer{Call: s.call, Raw: turns[i].Answer}})
	}
	return r, d.say(&r, t, audit.ActRole, d.format.DoneTokens(), true)
}

// attemptsInMemory is how many attempts a demonstrated memory tells at most.
const attemptsInMemory = 3

// memoryTokens is the cap of a demonstrated memory: that of `understudy rehearse`.
const memoryTokens = 48

// memory tells attempts at the task as a private rehearsal would: some solve it, some
// make one call at random and stop. Their answers are the sandbox's, better than
// those of a rehearsal.
func (d *demonstrator) memory(ctx context.Context, task audit.Task, random *rand.Rand) (string, error) {
	var told []string
	for range 1 + random.IntN(attemptsInMemory) {
		calls := []audit.Call{d.atRandom(task, random)}
		if random.IntN(2) == 0 {
			calls = task.Solution
		}
		t, err := d.attempt(ctx, task, calls)
		if err != nil {
			return "", err
		}
		told = append(told, d.format.Recall(t, d.rules, false))
		if d.format.Count(strings.Join(told, "\n")) > memoryTokens {
			told = told[:len(told)-1]
			break
		}
	}
	return strings.Join(told, "\n"), nil
}

func (d *demonstrator) attempt(ctx context.Context, task audit.Task, calls []audit.Call) (*envace.Trajectory, error) {
	turns, err := answered(ctx, d.env, task, calls)
	if err != nil {
		return nil, fmt.Errorf("attempt task %s: %w", task.ID, err)
	}
	t := &envace.Trajectory{}
	for _, turn := range turns {
		t.Items = append(t.Items, envace.Item{Answer: &envace.Answer{Call: turn.Call, Raw: turn.Answer}})
	}
	return t, nil
}

// say appends an output to the row, as a rollout would have read and sampled it.
func (d *demonstrator) say(r *row, t *envace.Transcript, role audit.PolicyRole, tokens []int32, imitate bool) error {
	prompt, err := d.format.Prompt(t, role, audit.Call{})
	if err != nil {
		return err
	}
	r.tokens = append(prompt, tokens...)
	if imitate {
		r.sampled = append(r.sampled, span{len(prompt), len(r.tokens), 0})
	}
	return nil
}
