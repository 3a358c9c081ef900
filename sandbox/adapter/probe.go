package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
)

// Probe is a read that shows what a write did, where a protocol cannot export
// the state. It is made before and after every call that may write.
type Probe struct {
	Call string `json:"call,omitempty"` // the tool that reads
	// Arguments may hold "$.arguments.NAME", from the write's arguments, and
	// "$.before.N.NAME", from the answer of probe N (from 0) before the write.
	// A probe whose places do not exist is left out.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	On        []string        `json:"on,omitempty"`    // the writes that it is for; nil = all
	At        string          `json:"at,omitempty"`    // JSON Pointer of its answer in the probed state; default /TOOL/ARGUMENT...
	State     bool            `json:"state,omitempty"` // what the protocol itself exports, instead of a call
}

// viewAt is where the protocol's own state lies in the probed state.
const viewAt = "/state"

// validate checks a probe against the tools.
func (p Probe) validate(i int, effects map[string]audit.Effect) error {
	if p.State {
		return nil
	}
	effect, known := effects[p.Call]
	switch {
	case !known:
		return fmt.Errorf("state_probes[%d]: no tool %q", i, p.Call)
	case effect == audit.Write:
		return fmt.Errorf("state_probes[%d]: tool %s writes; a probe must read", i, p.Call)
	case p.At != "" && !strings.HasPrefix(p.At, "/"):
		return fmt.Errorf("state_probes[%d]: at %q is no JSON Pointer, such as /orders", i, p.At)
	}
	for _, tool := range p.On {
		if _, known := effects[tool]; !known {
			return fmt.Errorf("state_probes[%d]: on names the unknown tool %q", i, tool)
		}
	}
	return nil
}

// sight is one probe made concrete for a write.
type sight struct {
	call audit.Call
	view bool
	at   string
}

// aim makes the probe's call for a write. before are the answers of the earlier
// probes before the write; ok is false where the probe does not apply.
func (p Probe) aim(write audit.Call, before []diff.Value) (s sight, ok bool) {
	if len(p.On) > 0 && !slices.Contains(p.On, write.Tool) || write.Tool == p.Call {
		return s, false
	}
	if p.State {
		return sight{view: true, at: viewAt}, true
	}
	arguments, err := diff.Decode(write.Arguments, diff.Limits{})
	if err != nil {
		arguments = diff.Value{}
	}
	text, ok := fill(p.Arguments, arguments, before)
	if !ok {
		return s, false
	}
	s = sight{call: audit.Call{Tool: p.Call, Arguments: text}, at: p.At}
	if s.at == "" {
		s.at = "/" + p.Call + argumentPath(text)
	}
	return s, true
}

// argumentPath names a call by the values of its arguments, in order of their names.
func argumentPath(arguments []byte) string {
	var values map[string]json.RawMessage
	if json.Unmarshal(arguments, &values) != nil {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := string(values[name])
		if plain := ""; json.Unmarshal(values[name], &plain) == nil {
			text = plain
		}
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(text))
	}
	return b.String()
}

// fill replaces the places of a template of arguments.
func fill(template json.RawMessage, arguments diff.Value, before []diff.Value) (json.RawMessage, bool) {
	if len(bytes.TrimSpace(template)) == 0 {
		return json.RawMessage(`{}`), true
	}
	decoder := json.NewDecoder(bytes.NewReader(template))
	decoder.UseNumber()
	var tree any
	if decoder.Decode(&tree) != nil {
		return nil, false
	}
	tree, ok := fillIn(tree, arguments, before)
	if !ok {
		return nil, false
	}
	text, err := json.Marshal(tree)
	return text, err == nil
}

func fillIn(node any, arguments diff.Value, before []diff.Value) (any, bool) {
	switch node := node.(type) {
	case map[string]any:
		for name, child := range node {
			filled, ok := fillIn(child, arguments, before)
			if !ok {
				return nil, false
			}
			node[name] = filled
		}
	case []any:
		for i, child := range node {
			filled, ok := fillIn(child, arguments, before)
			if !ok {
				return nil, false
			}
			node[i] = filled
		}
	case string:
		return place(node, arguments, before)
	}
	return node, true
}

// place looks up "$.arguments.a.b" and "$.before.0.a"; any other text stands for itself.
func place(text string, arguments diff.Value, before []diff.Value) (any, bool) {
	path, isPlace := strings.CutPrefix(text, "$.")
	if !isPlace {
		return text, true
	}
	steps := strings.Split(path, ".")
	from := arguments
	switch steps[0] {
	case "arguments":
		steps = steps[1:]
	case "before":
		if len(steps) < 2 {
			return nil, false
		}
		i, err := strconv.Atoi(steps[1])
		if err != nil || i < 0 || i >= len(before) {
			return nil, false
		}
		from, steps = before[i], steps[2:]
	default:
		return nil, false
	}
	at, found := from.Lookup(pointerOf(steps))
	if !found {
		return nil, false
	}
	return json.RawMessage(at.JSON()), true
}

func pointerOf(steps []string) string {
	var b strings.Builder
	for _, step := range steps {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return b.String()
}

// glance is what the probes of one write showed at one time.
type glance struct {
	sights   []sight
	world    World
	volatile []string // JSON Pointers that differ when the probes are made twice: no write's doing
}

// look makes the probes that apply to a write, the first time; twice where the
// environment is not declared deterministic.
func (s *session) look(ctx context.Context, write audit.Call) (glance, error) {
	var g glance
	var answers []diff.Value
	parts := map[string]diff.Value{}
	for _, p := range s.environment.config.Probes {
		seen, ok := p.aim(write, answers)
		if !ok {
			answers = append(answers, diff.Value{})
			continue
		}
		answer, err := s.glimpse(ctx, seen)
		if err != nil {
			return g, err
		}
		answers = append(answers, answer)
		g.sights = append(g.sights, seen)
		parts[seen.at] = answer
	}
	var err error
	if g.world, err = worldOf(parts); err != nil || s.environment.config.Deterministic || len(g.sights) == 0 {
		return g, err
	}
	second, err := s.again(ctx, g)
	if err != nil {
		return g, err
	}
	for _, op := range diff.Diff(g.world.value, second.value) {
		g.volatile = append(g.volatile, op.Path)
	}
	g.world = second // the one just before the write
	return g, nil
}

// changed is what a write did to what the probes show.
func (g glance) changed(after World) diff.Patch {
	delta := diff.Patch{}
	for _, op := range diff.Diff(g.world.value, after.value) {
		if !slices.ContainsFunc(g.volatile, func(at string) bool { return op.Path == at || strings.HasPrefix(op.Path, at+"/") }) {
			delta = append(delta, op)
		}
	}
	return delta
}

// again makes the same probes after the write.
func (s *session) again(ctx context.Context, g glance) (World, error) {
	parts := map[string]diff.Value{}
	for _, seen := range g.sights {
		answer, err := s.glimpse(ctx, seen)
		if err != nil {
			return World{}, err
		}
		parts[seen.at] = answer
	}
	return worldOf(parts)
}

// glimpse is what one probe shows; a refusal shows nothing.
func (s *session) glimpse(ctx context.Context, seen sight) (diff.Value, error) {
	if seen.view {
		viewer, ok := s.episode.(Viewer)
		if !ok {
			return diff.Value{}, errors.New("the protocol exports no state")
		}
		text, err := viewer.View(ctx)
		if err != nil {
			return diff.Value{}, err
		}
		return diff.Decode(text, stateLimits())
	}
	reply, err := s.episode.Call(ctx, seen.call.Tool, seen.call.Arguments)
	if err != nil {
		return diff.Value{}, &silentError{err}
	}
	if err := reply.silence(); err != nil {
		return diff.Value{}, fmt.Errorf("probe %s: %w", seen.call.Tool, err)
	}
	if reply.Status != audit.StatusOK {
		return diff.Value{}, nil
	}
	a := s.environment.rules.Of(seen.call.Tool).Read(reply.Raw)
	if !a.Valid {
		return diff.Value{}, fmt.Errorf("probe %s: %s", seen.call.Tool, a.Message)
	}
	return a.Body, nil
}

// worldOf builds the probed state: each answer at its pointer. One above another
// (a list, and its search for a word) moves to the member "" beside it.
func worldOf(parts map[string]diff.Value) (World, error) {
	tree := map[string]any{}
	for _, at := range slices.Sorted(maps.Keys(parts)) {
		if parts[at].Type() == diff.TypeAbsent {
			continue
		}
		steps := strings.Split(strings.TrimPrefix(at, "/"), "/")
		node := tree
		for _, step := range steps[:len(steps)-1] {
			child, ok := node[unescape(step)].(map[string]any)
			if !ok {
				child = map[string]any{}
				if above, taken := node[unescape(step)]; taken {
					child[""] = above
				}
				node[unescape(step)] = child
			}
			node = child
		}
		node[unescape(steps[len(steps)-1])] = json.RawMessage(parts[at].JSON())
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return World{}, fmt.Errorf("probed state: %w", err)
	}
	return NewWorld(text)
}

func unescape(step string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(step) }
