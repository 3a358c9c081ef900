package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
)

// Mutation is a way of spoiling a reference solution.
type Mutation string

// The closed list of mutations.
const (
	DropStep       Mutation = "drop_step"       // one writing step is left out
	ChangeArgument Mutation = "change_argument" // one argument of a writing step has another value
	ChangeTarget   Mutation = "change_target"   // the same step on another thing: an id is replaced
	ExtraStep      Mutation = "extra_step"      // one more write than was asked for
)

// Mutations lists every mutation in the order of the report.
func Mutations() []Mutation {
	return []Mutation{DropStep, ChangeArgument, ChangeTarget, ExtraStep}
}

// Mutant is one spoiled solution and its fate.
type Mutant struct {
	Kind       Mutation
	Text       string // what was spoiled
	Killed     bool   // a check noticed
	Equivalent bool   // it ends in the reference's state, so there is nothing to notice
}

// extraSteps is how many mutants add a step: each must be accepted and change something.
const extraSteps = 4

func (t trial) mutants(ctx context.Context, start tried, reference audit.Digest) ([]Mutant, error) {
	g, err := t.generator(ctx, start)
	if err != nil {
		return nil, err
	}
	var made []Mutant
	try := func(kind Mutation, text string, calls []audit.Call) error {
		m := Mutant{Kind: kind, Text: text}
		passed, err := t.attempt(ctx, start, calls, func(s tried, _ string) error {
			after, err := s.StateDigest(ctx)
			m.Equivalent = after == reference
			return err
		})
		m.Killed = !passed
		made = append(made, m)
		return err
	}
	for i, call := range t.task.Solution {
		tool, ok := g.tool(call.Tool)
		if !ok || tool.Effect == audit.Read {
			continue
		}
		if err := try(DropStep, call.Tool, without(t.task.Solution, i)); err != nil {
			return nil, err
		}
		for _, c := range g.variants(tool, call, t.values) {
			if err := try(c.kind, c.text, replaced(t.task.Solution, i, c.call)); err != nil {
				return nil, err
			}
		}
	}
	extra, err := t.extras(ctx, start, g)
	if err != nil {
		return nil, err
	}
	for _, call := range extra {
		text := fmt.Sprintf("and %s %s", call.Tool, call.Arguments)
		if err := try(ExtraStep, text, append(slices.Clip(t.task.Solution), call)); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// extras finds writes that are accepted after the solution and change something.
func (t trial) extras(ctx context.Context, start tried, g *Generator) ([]audit.Call, error) {
	var found []audit.Call
	_, err := t.attempt(ctx, start, t.task.Solution, func(s tried, _ string) error {
		for tries := 0; tries < 60*extraSteps && len(found) < extraSteps; tries++ {
			call, ok := g.NextWrite()
			if !ok {
				return nil
			}
			fork, err := s.Fork(ctx)
			if err != nil {
				return fmt.Errorf("fork: %w", err)
			}
			seen, err := fork.Call(ctx, call)
			fork.Close()
			if err != nil {
				return fmt.Errorf("call %s: %w", call.Tool, err)
			}
			if seen.Status == audit.StatusOK && len(seen.Delta) > 0 {
				found = append(found, call)
			}
		}
		return nil
	})
	return found, err
}

// variant is a call with one argument changed.
type variant struct {
	kind Mutation
	text string
	call audit.Call
}

func (g *Generator) tool(name string) (toolSchema, bool) {
	for _, t := range g.tools {
		if t.Name == name {
			return t, true
		}
	}
	return toolSchema{}, false
}

// variants changes one argument at a time to other valid values.
func (g *Generator) variants(t toolSchema, call audit.Call, values int) []variant {
	value, err := decode(call.Arguments)
	arguments, ok := value.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	var made []variant
	for _, name := range sortedKeys(arguments) {
		s, ok := t.input.Properties[name]
		if !ok {
			continue
		}
		old, _ := json.Marshal(arguments[name]) // decoded JSON encodes again
		for _, other := range g.others(s.variant(), string(old), values) {
			text, _ := json.Marshal(with(arguments, name, other))
			kind := ChangeArgument
			if g.isTarget(s.variant(), name) {
				kind = ChangeTarget
			}
			changed := call
			changed.Arguments = text
			made = append(made, variant{kind: kind, text: fmt.Sprintf("%s %s: %s becomes %s", t.Name, name, old, mustText(other)), call: changed})
		}
	}
	return made
}

// others draws values that differ from the old one: every other enum value, else so many draws.
func (g *Generator) others(s *schema, old string, values int) []any {
	var found []any
	if len(s.Enum) > 0 {
		for _, v := range s.Enum {
			if mustText(v) != old {
				found = append(found, v)
			}
		}
		return found
	}
	seen := map[string]bool{old: true}
	if near, ok := beside(s, old); ok {
		found = append(found, near) // off by one: what a sloppy check overlooks
		seen[mustText(near)] = true
	}
	for tries := 0; tries < 8*values && len(found) < values; tries++ {
		v := g.value(s, g.elsewhere(), 0)
		if text := mustText(v); !seen[text] {
			seen[text] = true
			found = append(found, v)
		}
	}
	return found
}

// beside is the whole number next to old, where the schema allows it.
func beside(s *schema, old string) (int, bool) {
	n, err := strconv.Atoi(old)
	if err != nil || s.kind() != "integer" {
		return 0, false
	}
	if s.Maximum == nil || float64(n+1) <= *s.Maximum {
		return n + 1, true
	}
	return n - 1, s.Minimum == nil || float64(n-1) >= *s.Minimum
}

// isTarget reports whether an argument names what a step acts on: by its name, or
// because its description shows an id.
func (g *Generator) isTarget(s *schema, name string) bool {
	return strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "_ids") || g.params[s.param].shape != ""
}

func without(calls []audit.Call, i int) []audit.Call {
	return append(calls[:i:i], calls[i+1:]...)
}

func replaced(calls []audit.Call, i int, call audit.Call) []audit.Call {
	return append(append(calls[:i:i], call), calls[i+1:]...)
}

func with(arguments map[string]any, name string, value any) map[string]any {
	changed := maps.Clone(arguments)
	changed[name] = value
	return changed
}

func mustText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
