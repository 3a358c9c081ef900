package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/audit/stat"
)

// Ceiling is how true rehearsals of the held-out solutions' calls can be, for
// whoever knows how tasks are drawn and reads what REHEARSE reads: the Bayes ceiling
// of leaf F1. It is below 1 because part of the card is hidden.
type Ceiling struct {
	// LeafF1 is of the best answer, chosen on one half of the possible worlds and
	// scored on the other: what can be reached. Clustered by task.
	LeafF1 stat.Estimate `json:"leaf_f1"`
	// Reference scores the same answers against what the sandbox really said: equal
	// to LeafF1 but for chance, if the possible worlds are drawn rightly.
	Reference stat.Estimate `json:"reference"`
	Calls     int           `json:"calls"`
	Open      int           `json:"open"` // calls whose answer what was seen leaves open
	// Skipped are calls for which too few possible worlds were found: what is seen
	// there is too rare to be met by chance.
	Skipped int `json:"skipped,omitempty"`
	Worlds  int `json:"worlds"`
	// Rules are those that answers were compared by, where somebody wrote some.
	Rules audit.Digest `json:"rules,omitzero"`
}

const ceilingFile = "ceiling.json"

// ReadCeiling reads what WriteCeiling wrote into the folder of a recipe's runs;
// os.ErrNotExist without.
func ReadCeiling(out string) (c Ceiling, err error) {
	err = readJSON(filepath.Join(out, ceilingFile), &c)
	return c, err
}

// WriteCeiling keeps the ceiling beside the runs.
func WriteCeiling(out string, c Ceiling) error { return writeJSON(filepath.Join(out, ceilingFile), c) }

// BayesCeiling draws worlds possible worlds for each call of the tasks' solutions.
func BayesCeiling(ctx context.Context, env audit.Environment, rules *audit.Rules, tasks []audit.Task, worlds int) (Ceiling, error) {
	believer, ok := env.(audit.Believer)
	if !ok {
		return Ceiling{}, &audit.Error{
			Code: audit.CodeUnprocessable, Message: env.Info().Name + " does not say which worlds a prompt leaves possible",
			Hint: "the ceiling is of environments that do, such as retail-mini",
		}
	}
	tools, err := env.Tools(ctx)
	if err != nil {
		return Ceiling{}, fmt.Errorf("list tools: %w", err)
	}
	o := oracle{env: env, believer: believer, rules: rules, tools: map[string]audit.Tool{}, worlds: worlds}
	for _, t := range tools {
		o.tools[t.Name] = t
	}
	best, truth := make([]stat.Cluster, len(tasks)), make([]stat.Cluster, len(tasks))
	open, skipped := make([]int, len(tasks)), make([]int, len(tasks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, task := range tasks {
		group.Go(func() error {
			best[i].Group, truth[i].Group = task.ID, task.ID
			var err error
			open[i], skipped[i], err = o.task(ctx, task, &best[i], &truth[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Ceiling{}, fmt.Errorf("look for the ceiling: %w", err)
	}
	c := Ceiling{LeafF1: stat.Clustered(best, .95), Reference: stat.Clustered(truth, .95), Worlds: worlds, Rules: rules.Written()}
	for i := range tasks {
		c.Calls, c.Open, c.Skipped = c.Calls+best[i].N, c.Open+open[i], c.Skipped+skipped[i]
	}
	return c, nil
}

// fewestWorlds is what a guess about a call must rest on: half to choose, half to score.
const fewestWorlds = 8

// oracle answers calls as well as one can without the world.
type oracle struct {
	env      audit.Environment
	believer audit.Believer
	rules    *audit.Rules
	tools    map[string]audit.Tool
	worlds   int
}

// task adds the calls of one task's solution.
func (o *oracle) task(ctx context.Context, task audit.Task, best, reference *stat.Cluster) (open, skipped int, err error) {
	truth, err := o.answers(ctx, audit.Start{Task: task.ID}, task.Solution)
	if err != nil {
		return 0, 0, err
	}
	var seen []audit.Answered
	for i, call := range task.Solution {
		possible, err := o.possible(ctx, task, seen, i)
		if err != nil {
			return open, skipped, err
		}
		seen = append(seen, audit.Answered{Call: call, Raw: truth[i].Raw})
		if len(possible) < min(o.worlds, fewestWorlds) {
			skipped++
			continue
		}
		half := len(possible) / 2
		answer := o.bestAnswer(call, possible[:half])
		best.Add(o.mean(call, answer, possible[half:]), 1)
		reference.Add(o.f1(call, answer, &truth[i]), 1)
		if different(possible) {
			open++
		}
	}
	return open, skipped, nil
}

// possible are the answers to the solution's call number i in the possible worlds.
func (o *oracle) possible(ctx context.Context, task audit.Task, seen []audit.Answered, i int) ([]audit.Observation, error) {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", task.ID, i)
	worlds, err := o.believer.Possible(ctx, task.ID, seen, h.Sum64(), o.worlds)
	if err != nil {
		return nil, err
	}
	answers := make([]audit.Observation, len(worlds))
	for j, world := range worlds {
		all, err := o.answers(ctx, audit.Start{State: world}, task.Solution[:i+1])
		if err != nil {
			return nil, err
		}
		answers[j] = all[i]
	}
	return answers, nil
}

// answers are those that calls get from a start.
func (o *oracle) answers(ctx context.Context, start audit.Start, calls []audit.Call) (seen []audit.Observation, err error) {
	session, err := o.env.Open(ctx, start)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for _, call := range calls {
		observation, err := session.Call(ctx, call)
		if err != nil {
			return nil, err
		}
		seen = append(seen, observation)
	}
	return seen, nil
}

// bestAnswer is the answer with the highest mean F1: one of those given, or the
// one that takes each field by majority.
func (o *oracle) bestAnswer(call audit.Call, among []audit.Observation) []byte {
	candidates := map[string]bool{}
	var bodies []json.RawMessage
	for i := range among {
		candidates[string(among[i].Raw)] = true
		bodies = append(bodies, among[i].Raw)
	}
	candidates[string(majority(bodies))] = true
	var best []byte
	score := -1.0
	for _, candidate := range slices.Sorted(maps.Keys(candidates)) {
		if mean := o.mean(call, []byte(candidate), among); mean > score {
			best, score = []byte(candidate), mean
		}
	}
	return best
}

func (o *oracle) mean(call audit.Call, answer []byte, said []audit.Observation) float64 {
	sum := 0.0
	for i := range said {
		sum += o.f1(call, answer, &said[i])
	}
	return sum / float64(len(said))
}

// f1 is the judge's; an answer of the wrong kind has none and counts 0.
func (o *oracle) f1(call audit.Call, answer []byte, said *audit.Observation) float64 {
	v := o.rules.Judge(&audit.Case{
		Environment: o.env.Info().Name, Mode: audit.Forced, Tool: o.tools[call.Tool], Call: call,
		Rehearsal: &audit.Rehearsal{Raw: answer}, Observation: said,
	})
	if v.Scores.LeafF1 == nil {
		return 0
	}
	return *v.Scores.LeafF1
}

// majority merges JSON values: of objects each key that most have, of anything else
// the most frequent.
func majority(values []json.RawMessage) json.RawMessage {
	objects := make([]map[string]json.RawMessage, 0, len(values))
	for _, v := range values {
		var object map[string]json.RawMessage
		if json.Unmarshal(v, &object) == nil && object != nil {
			objects = append(objects, object)
		}
	}
	if 2*len(objects) <= len(values) {
		return mostFrequent(values)
	}
	fields := map[string][]json.RawMessage{}
	for _, object := range objects {
		for key, v := range object {
			fields[key] = append(fields[key], v)
		}
	}
	var out bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if 2*len(fields[key]) > len(objects) {
			name, _ := json.Marshal(key) // a string
			fmt.Fprintf(&out, ",%s:%s", name, majority(fields[key]))
		}
	}
	if out.Len() == 0 {
		return json.RawMessage("{}")
	}
	return append(append(json.RawMessage("{"), out.Bytes()[1:]...), '}')
}

// mostFrequent is the most frequent value; of equally frequent ones the first in order.
func mostFrequent(values []json.RawMessage) json.RawMessage {
	count := map[string]int{}
	for _, v := range values {
		count[string(v)]++
	}
	var best string
	for _, v := range slices.Sorted(maps.Keys(count)) {
		if count[v] > count[best] {
			best = v
		}
	}
	return json.RawMessage(best)
}

// different says whether the answers are not all the same.
func different(answers []audit.Observation) bool {
	for i := range answers {
		if !bytes.Equal(answers[i].Raw, answers[0].Raw) {
			return true
		}
	}
	return false
}
