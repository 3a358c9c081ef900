package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"understudy/audit/diff"
)

// mutator makes calls that should be refused from calls that are accepted.
type mutator struct {
	tools  map[string]Tool
	random *rand.Rand
	valid  []validCall
	pool   map[string][]string // argument name → JSON texts seen in valid calls
}

// validCall is a call that the environment accepted at its place.
type validCall struct {
	episode   *Episode
	step      int
	arguments diff.Value
	schema    map[string]parameter
	required  []string
}

// parameter is what a tool's JSON Schema says of one argument.
type parameter struct {
	Type    string            `json:"type"`
	Enum    []json.RawMessage `json:"enum"`
	Minimum *float64          `json:"minimum"`
	Maximum *float64          `json:"maximum"`
}

func newMutator(tools []Tool, random *rand.Rand) *mutator {
	m := &mutator{tools: make(map[string]Tool, len(tools)), random: random, pool: make(map[string][]string)}
	for _, t := range tools {
		m.tools[t.Name] = t
	}
	return m
}

// learn executes an episode and keeps the calls that are accepted.
func (m *mutator) learn(ctx context.Context, env Environment, ep *Episode) error {
	session, err := env.Open(ctx, ep.Start)
	if err != nil {
		return fmt.Errorf("open %s for episode %s: %w", env.Info().Name, ep.ID, err)
	}
	defer session.Close()
	for i := range ep.Actions {
		call := ep.Actions[i].Call
		o, err := session.Call(ctx, call)
		if err != nil {
			return fmt.Errorf("run step %d of episode %s: %w", i, ep.ID, err)
		}
		arguments, err := diff.Decode(call.Arguments, diff.Limits{})
		if err != nil || o.Status != StatusOK {
			return nil // what follows a refusal is not known to be valid
		}
		v := validCall{episode: ep, step: i, arguments: arguments}
		v.readSchema(m.tools[call.Tool].Input)
		m.valid = append(m.valid, v)
		for name, value := range arguments.Members() {
			if text := value.String(); value.Type() == diff.TypeString && !slices.Contains(m.pool[name], text) {
				m.pool[name] = append(m.pool[name], text)
			}
		}
	}
	return nil
}

func (v *validCall) readSchema(schema json.RawMessage) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return // a tool without a readable schema has no schema-level canaries
	}
	v.required = s.Required
	v.schema = make(map[string]parameter, len(s.Properties))
	for name, text := range s.Properties {
		var p parameter
		if json.Unmarshal(text, &p) == nil { // a type list or a reference is no plain parameter
			v.schema[name] = p
		}
	}
}

// candidates are queues of mutated calls, one for each mutation, each in random order.
func (m *mutator) candidates() [][]*candidate {
	byMutation := make(map[string][]*candidate)
	for i := range m.valid {
		for _, c := range m.mutate(&m.valid[i]) {
			byMutation[c.mutation] = append(byMutation[c.mutation], c)
		}
	}
	var queues [][]*candidate
	for _, mutation := range slices.Sorted(maps.Keys(byMutation)) {
		queue := byMutation[mutation]
		m.random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		queues = append(queues, queue)
	}
	return queues
}

// mutate makes every candidate of one valid call.
func (m *mutator) mutate(v *validCall) []*candidate {
	all := m.repeats(v)
	for name, value := range v.arguments.Members() {
		p := v.schema[name]
		switch {
		case len(p.Enum) > 0:
			if other := p.noChoice(); other != nil {
				all = append(all, v.with(MutateRange, name, other))
			}
		case value.Type() == diff.TypeString:
			all = append(all, m.identities(v, name, value)...)
		case value.Type() == diff.TypeNumber:
			all = append(all, v.amounts(name, value, p)...)
		default:
		}
	}
	for _, name := range v.required {
		all = append(all, v.with(MutateMissing, name, nil))
	}
	return all
}

// repeats are the same write once more, by us or after somebody else, and the
// write without the one before it.
func (m *mutator) repeats(v *validCall) []*candidate {
	call := v.call()
	if m.tools[call.Tool].Effect == Read {
		return nil
	}
	again := v.candidate(MutateRepeated, call)
	again.before = append(again.before, v.episode.Actions[v.step])
	stale := v.candidate(MutateStale, call)
	stale.foreign = &call
	all := []*candidate{again, stale}
	for i := v.step - 1; i >= 0; i-- {
		if m.tools[v.episode.Actions[i].Call.Tool].Effect == Write {
			early := v.candidate(MutateOrder, call)
			early.before = slices.Delete(early.before, i, i+1)
			return append(all, early)
		}
	}
	return all
}

// identities replace an id by one that does not exist, and by other people's.
func (m *mutator) identities(v *validCall, name string, value diff.Value) []*candidate {
	text := value.Text()
	if !strings.ContainsAny(text, "0123456789") {
		return nil
	}
	var all []*candidate
	if unknown := m.unseen(name, text); unknown != "" {
		all = append(all, v.with(MutateUnknownID, name, []byte(unknown)))
	}
	others := m.pool[name]
	for range min(3, len(others)) {
		if other := others[m.random.IntN(len(others))]; other != value.String() {
			all = append(all, v.with(MutateWrongOwner, name, []byte(other)))
		}
	}
	return all
}

// unseen is an id of the same shape, digit for digit, that no valid call used.
func (m *mutator) unseen(name, id string) string {
	for range 16 {
		b := []byte(id)
		for i, c := range b {
			if c >= '0' && c <= '9' {
				b[i] = byte('0' + m.random.IntN(10))
			}
		}
		if text := string(appendJSONString(nil, string(b))); !slices.Contains(m.pool[name], text) {
			return text
		}
	}
	return ""
}

// amounts replace a number by what the schema forbids, and by as much as it allows.
func (v *validCall) amounts(name string, value diff.Value, p parameter) []*candidate {
	all := []*candidate{v.with(MutateWrongType, name, []byte(`"many"`))}
	if p.Minimum != nil {
		all = append(all, v.with(MutateRange, name, p.number(math.Ceil, *p.Minimum-1)))
	}
	most := []byte(value.Text() + "000")
	if text := strings.TrimPrefix(value.Text(), "-"); text == "0" || strings.ContainsAny(text, ".eE") {
		most = []byte("1000000")
	}
	if p.Maximum != nil {
		all = append(all, v.with(MutateRange, name, p.number(math.Floor, *p.Maximum+1)))
		most = p.number(math.Floor, *p.Maximum)
	}
	return append(all, v.with(MutateOverLimit, name, most))
}

// number writes a number as JSON; one of an integer parameter is rounded first.
func (p *parameter) number(round func(float64) float64, x float64) []byte {
	if p.Type == "integer" {
		x = round(x) + 0 // no -0
	}
	return strconv.AppendFloat(nil, x, 'f', -1, 64)
}

// noChoice is a value of the type of an enum's choices that is none of them; nil where
// they are neither texts nor numbers.
func (p *parameter) noChoice() []byte {
	most, texts := math.Inf(-1), 0
	for _, choice := range p.Enum {
		var value any
		_ = json.Unmarshal(choice, &value) // it was part of JSON that was read
		switch x := value.(type) {
		case string:
			texts++
		case float64:
			most = max(most, x)
		}
	}
	switch {
	case texts > 0:
		return []byte(`"no_such_choice"`)
	case !math.IsInf(most, 0):
		return p.number(math.Floor, most+1)
	}
	return nil
}

func (v *validCall) call() Call { return v.episode.Actions[v.step].Call }

func (v *validCall) candidate(mutation string, call Call) *candidate {
	return &candidate{
		mutation: mutation, episode: v.episode, before: slices.Clone(v.episode.Actions[:v.step]),
		call: call, prompt: v.episode.Actions[v.step].Prompt,
	}
}

// with is the call with one argument replaced, or left out when value is nil.
func (v *validCall) with(mutation, name string, value []byte) *candidate {
	b := []byte{'{'}
	for member, old := range v.arguments.Members() {
		if member == name && value == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, member), ':')
		if member == name {
			b = append(b, value...)
			continue
		}
		b = old.AppendJSON(b)
	}
	call := v.call()
	call.Arguments = append(b, '}')
	return v.candidate(mutation, call)
}
