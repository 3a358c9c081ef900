package starlark

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"understudy/sandbox/state"
)

// invalid is why an argument does not fit its declared type.
type invalid struct {
	pointer string // JSON Pointer into the arguments
	reason  string
}

// in is the fault seen from the container that holds the value as name.
func (e *invalid) in(name string) *invalid {
	return &invalid{pointer: "/" + name + e.pointer, reason: e.reason}
}

func (e *invalid) Error() string {
	name := strings.TrimPrefix(e.pointer, "/")
	if name == "" {
		return e.reason
	}
	return "argument " + name + ": " + e.reason
}

// accept validates a decoded value and returns it as a handler gets it: plain
// dicts and lists, defaults filled in. Nothing is coerced, except that a whole
// number such as 3.0 is an integer, as JSON Schema says.
func (p *paramType) accept(v starlark.Value) (starlark.Value, *invalid) {
	fail := func(reason string) (starlark.Value, *invalid) { return nil, &invalid{reason: reason} }
	if p.optional && v == starlark.None && p.kind != "any" {
		if p.fallback == starlark.None {
			return v, nil
		}
		return fail("want " + p.kind + ", got null; leave it out instead")
	}
	switch p.kind {
	case "any":
		return state.Plain(v), nil
	case "enum":
		for _, want := range p.values {
			if state.JSONType(want) != state.JSONType(v) {
				continue
			}
			if eq, err := state.Equal(want, v); err == nil && eq {
				return v, nil
			}
		}
		return fail(fmt.Sprintf("%s is not one of %s", brief(v), brief(state.NewArray(p.values))))
	case "object":
		return p.acceptObject(v)
	case "array":
		return p.acceptArray(v)
	}
	got := state.JSONType(v)
	if f, ok := v.(starlark.Float); ok && p.kind == "integer" {
		i, err := starlark.NumberToInt(f)
		if err == nil && i.Float() == f {
			v, got = i, "integer"
		}
	}
	if got != p.kind && (p.kind != "number" || got != "integer") {
		return fail("want " + p.kind + ", got " + got)
	}
	if reason := p.outside(v); reason != "" {
		return fail(reason)
	}
	return v, nil
}

// outside says which bound a scalar of the right type violates, or "".
func (p *paramType) outside(v starlark.Value) string {
	if s, ok := v.(starlark.String); ok {
		n := utf8.RuneCountInString(string(s))
		switch {
		case n < p.minLen:
			return fmt.Sprintf("want at least %d characters, got %d", p.minLen, n)
		case p.maxLen >= 0 && n > p.maxLen:
			return fmt.Sprintf("want at most %d characters, got %d", p.maxLen, n)
		case p.format == "date" && !isDate(string(s)):
			return brief(v) + " is not a day of the calendar, YYYY-MM-DD"
		case p.pattern != nil && !p.pattern.MatchString(string(s)):
			return fmt.Sprintf("%s does not match %s", brief(v), p.pattern)
		}
		return ""
	}
	if p.min != nil {
		if less, err := starlark.Compare(syntax.LT, v, p.min); err != nil || less {
			return fmt.Sprintf("%s is less than the minimum %s", brief(v), p.min)
		}
	}
	if p.max != nil {
		if more, err := starlark.Compare(syntax.GT, v, p.max); err != nil || more {
			return fmt.Sprintf("%s is more than the maximum %s", brief(v), p.max)
		}
	}
	return ""
}

func (p *paramType) acceptArray(v starlark.Value) (starlark.Value, *invalid) {
	a, ok := v.(*state.Array)
	if !ok {
		return nil, &invalid{reason: "want array, got " + state.JSONType(v)}
	}
	if a.Len() < p.minLen {
		return nil, &invalid{reason: fmt.Sprintf("want at least %d items, got %d", p.minLen, a.Len())}
	}
	if p.maxLen >= 0 && a.Len() > p.maxLen {
		return nil, &invalid{reason: fmt.Sprintf("want at most %d items, got %d", p.maxLen, a.Len())}
	}
	items := make([]starlark.Value, a.Len())
	for i := range items {
		var bad *invalid
		if items[i], bad = p.item.accept(a.At(i)); bad != nil {
			return nil, bad.in(strconv.Itoa(i))
		}
	}
	return starlark.NewList(items), nil
}

func (p *paramType) acceptObject(v starlark.Value) (starlark.Value, *invalid) {
	o, ok := v.(*state.Object)
	if !ok {
		return nil, &invalid{reason: "want object, got " + state.JSONType(v)}
	}
	items, bad := p.acceptFields(o)
	if bad != nil {
		return nil, bad
	}
	d := starlark.NewDict(len(items))
	for _, item := range items {
		_ = d.SetKey(item[0], item[1]) // strings hash
	}
	return d, nil
}

// acceptFields validates an object's members into (name, value) pairs in the
// order of declaration.
func (p *paramType) acceptFields(o *state.Object) ([]starlark.Tuple, *invalid) {
	items := make([]starlark.Tuple, 0, len(p.fields))
	cells := make([]starlark.Value, 0, 2*len(p.fields)) // of the items
	add := func(key, v starlark.Value) {
		cells = append(cells, key, v)
		items = append(items, cells[len(cells)-2:len(cells):len(cells)])
	}
	found := 0
	for _, f := range p.fields {
		v := o.Get(f.name)
		if v == nil {
			if !f.optional {
				return nil, &invalid{"/" + f.name, "required, but missing"}
			}
			if f.fallback != nil {
				add(f.key, state.Plain(f.fallback))
			}
			continue
		}
		found++
		accepted, bad := f.accept(v)
		if bad != nil {
			return nil, bad.in(f.name)
		}
		add(f.key, accepted)
	}
	if found == o.Len() {
		return items, nil
	}
	return nil, p.unexpected(o)
}

// unexpected names the first member that is not declared.
func (p *paramType) unexpected(o *state.Object) *invalid {
	var bad *invalid
	o.Each(func(key string, _ starlark.Value) bool {
		if p.declares(key) {
			return true
		}
		bad = &invalid{"/" + key, "not a parameter of this tool"}
		return false
	})
	return bad
}

// brief is a value as JSON, cut to a readable length.
func brief(v starlark.Value) string {
	style := state.Compact()
	style.Limit = 4 << 10
	text, err := style.Append(nil, v)
	if err != nil {
		return "a " + v.Type()
	}
	if utf8.RuneCount(text) > 200 {
		return string([]rune(string(text))[:200]) + "…"
	}
	return string(text)
}

func isDate(s string) bool {
	_, err := time.Parse(dateLayout, s)
	return err == nil
}
