package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Grammar is what may be generated. It is immutable but for what it remembers of
// masks, and safe for concurrent use: compile once, use for many generations.
type Grammar struct {
	vocabulary *Vocabulary
	root       node
	ignored    []string
	outlooks   outlooks
}

// Part is one piece of a grammar, written one after another.
type Part struct {
	build func(v *Vocabulary) (n node, ignored []string, err error)
}

// New compiles parts in sequence. Errors name the schema's place and keyword.
func New(v *Vocabulary, parts ...Part) (*Grammar, error) {
	if len(parts) == 0 {
		return nil, errors.New("grammar: no parts")
	}
	g := &Grammar{vocabulary: v, outlooks: outlooks{known: map[frame]*outlook{}}}
	q := &sequence{}
	for _, p := range parts {
		n, ignored, err := p.build(v)
		if err != nil {
			return nil, err
		}
		q.parts = append(q.parts, n)
		g.ignored = append(g.ignored, ignored...)
	}
	g.root = q
	return g, nil
}

// Ignored lists the places of a schema that say something which is not enforced,
// such as `format`.
func (g *Grammar) Ignored() []string { return g.ignored }

// Literal is the text itself.
func Literal(s string) Part {
	return Part{build: func(v *Vocabulary) (node, []string, error) { return &word{text: s}, nil, v.spells(s) }}
}

// Schema is JSON that the schema accepts.
func Schema(raw json.RawMessage) Part {
	return Part{build: func(v *Vocabulary) (node, []string, error) { return compileSchema(v, raw) }}
}

// JSON is any JSON value.
func JSON() Part { return Schema(json.RawMessage(`true`)) }

// Object is any JSON object.
func Object() Part { return Schema(json.RawMessage(`{"type":"object"}`)) }

// Call is one tool that may be called.
type Call struct {
	Name       string
	Parameters json.RawMessage // JSON Schema; nil = any object
}

// Calls is how tool calls are written, and which.
type Calls struct {
	// Before and After enclose a call, {"name": …, "arguments": …}, such as
	// "<tool_call>\n" and "\n</tool_call>". Between calls stands Between.
	Before, After, Between string
	// Trigger is the part of Before that, once written in free text, makes the
	// rest a call; "" = the whole of it.
	Trigger string
	Tools   []Call
	// Required calls come first and alone; otherwise calls stand in free text.
	Required bool
	Once     bool // at most one call
}

// Tools is an answer that calls tools.
func Tools(c Calls) Part {
	return Part{build: func(v *Vocabulary) (node, []string, error) {
		if len(c.Tools) == 0 || c.Before == "" {
			return nil, nil, errors.New("grammar: tool calls need tools and a text that begins them")
		}
		trigger := c.Trigger
		if trigger == "" {
			trigger = c.Before
		}
		if len(c.Before) < len(trigger) || c.Before[:len(trigger)] != trigger {
			return nil, nil, fmt.Errorf("grammar: %q does not begin with %q", c.Before, trigger)
		}
		call, ignored, err := c.call(v)
		if err = errors.Join(err, v.spells(c.Before+c.After+c.Between)); err != nil {
			return nil, nil, err
		}
		if !c.Required {
			rest := &sequence{parts: []node{&word{text: c.Before[len(trigger):]}, call, &word{text: c.After}}}
			return &prose{trigger: trigger, body: rest, once: c.Once}, ignored, nil
		}
		one := &sequence{parts: []node{&word{text: c.Before}, call, &word{text: c.After}}}
		if c.Once {
			return one, ignored, nil
		}
		more := &repeat{item: &sequence{parts: []node{&word{text: c.Between}, one}}}
		return &sequence{parts: []node{one, more}}, ignored, nil
	}}
}

// call is a choice between the tools, in the layout that chat templates use.
func (c Calls) call(v *Vocabulary) (node, []string, error) {
	u := &union{shortest: unreachable}
	var ignored []string
	for _, tool := range c.Tools {
		schema := tool.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		arguments, skipped, err := compileSchema(v, schema)
		if err = errors.Join(err, v.spells(quote(tool.Name))); err != nil {
			return nil, nil, fmt.Errorf("tool %s: %w", tool.Name, err)
		}
		for _, at := range skipped {
			ignored = append(ignored, tool.Name+" "+at)
		}
		u.alternatives = append(u.alternatives, &sequence{parts: []node{
			&word{text: `{"name": ` + quote(tool.Name) + `, "arguments": `}, arguments, &word{text: "}"},
		}})
	}
	u.remeasure()
	return u, ignored, nil
}

// repeat is its item any number of times.
type repeat struct{ item node }

func (r *repeat) enter(dst []*stack, parent *stack) []*stack {
	dst = leave(dst, parent)
	return r.item.enter(dst, frame{node: r}.on(parent, 0))
}

func (r *repeat) resume(dst []*stack, s *stack) []*stack     { return r.enter(dst, s.parent) }
func (*repeat) step(dst []*stack, _ *stack, _ byte) []*stack { return dst } // never on top
func (*repeat) least() int                                   { return 0 }

// State is a text so far. It is an immutable value: a fork is a copy.
type State struct {
	grammar *Grammar
	set     []*stack
}

// Start is the empty text.
func (g *Grammar) Start() State {
	return State{grammar: g, set: g.root.enter(nil, bottom("end"))}
}

// Write appends text; ok is false where the grammar forbids it, or would leave more
// than MaxReadings.
func (s State) Write(text []byte) (next State, ok bool) {
	set := s.set
	for _, b := range text {
		var to []*stack
		for _, k := range set {
			to = k.node.step(to, k, b)
		}
		if set = distinct(to); len(set) > MaxReadings {
			return State{grammar: s.grammar}, false
		}
	}
	return State{grammar: s.grammar, set: set}, len(set) > 0
}

// Least is the fewest bytes, and so at most the fewest tokens, that complete the
// text.
func (s State) Least() int { return fewest(s.set) }

// Complete says whether the text may end here.
func (s State) Complete() bool {
	for _, k := range s.set {
		if k.parent == nil {
			return true
		}
	}
	return false
}

// Final says whether nothing but the end may follow.
func (s State) Final() bool {
	for _, k := range s.set {
		if k.parent != nil {
			return false
		}
	}
	return true
}

// Mask sets m to the tokens that may come next when, after that token, at most
// limit more may be written. It is empty when only the end may follow, or when
// nothing fits (Least tells). Write may refuse a token for its many readings.
func (s State) Mask(m Mask, limit int) {
	clear(m)
	for _, k := range s.set {
		s.grammar.add(m, k, limit)
	}
}

// Vocabulary is the one that masks are made for.
func (g *Grammar) Vocabulary() *Vocabulary { return g.vocabulary }
