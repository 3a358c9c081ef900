package starlark

import (
	"fmt"
	"regexp"
	"slices"

	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

// paramType is the type of a tool's parameter: what its JSON Schema says and what
// validation accepts.
type paramType struct {
	kind     string // string, integer, number, boolean, enum, array, object, any
	doc      string
	pattern  *regexp.Regexp
	format   string         // of a string: "date" is a day of the calendar, YYYY-MM-DD; "" = any text
	min, max starlark.Value // of an integer or number; nil = unbounded
	minLen   int            // of a string in characters or an array
	maxLen   int            // -1 = unbounded
	values   []starlark.Value
	item     *paramType
	fields   []field // of an object, in order
	optional bool
	fallback starlark.Value // of an optional parameter; nil = leave it out
}

type field struct {
	name string
	key  starlark.Value // the name, as keyword arguments hold it
	*paramType
}

// declares reports whether the object type has a field of that name.
func (p *paramType) declares(name string) bool {
	return slices.ContainsFunc(p.fields, func(f field) bool { return f.name == name })
}

var _ starlark.Value = (*paramType)(nil)

func (p *paramType) String() string        { return string(state.AppendJSON(nil, p.schema())) }
func (p *paramType) Type() string          { return "parameter type" }
func (p *paramType) Freeze()               {}
func (p *paramType) Truth() starlark.Bool  { return true }
func (p *paramType) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: %s", p.Type()) }

// builtinFunc is the signature that starlark.NewBuiltin wants.
type builtinFunc = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

func builtinString(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &paramType{kind: "string", maxLen: -1}
	pattern := ""
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "doc?", &p.doc, "pattern??", &pattern, "min_len??", &p.minLen, "max_len??", &p.maxLen)
	if err == nil && pattern != "" {
		p.pattern, err = regexp.Compile(pattern)
	}
	return p, err
}

// builtinDate is date(doc): a day that exists, so that handlers may reckon with it.
func builtinDate(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &paramType{kind: "string", format: "date", maxLen: -1}
	return p, starlark.UnpackArgs(b.Name(), args, kwargs, "doc?", &p.doc)
}

// builtinNumber serves integer and number.
func builtinNumber(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &paramType{kind: b.Name(), maxLen: -1}
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "doc?", &p.doc, "min??", &p.min, "max??", &p.max)
	return p, err
}

// builtinSimple serves boolean and anything.
func builtinSimple(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &paramType{kind: b.Name(), maxLen: -1}
	if p.kind == "anything" {
		p.kind = "any"
	}
	return p, starlark.UnpackArgs(b.Name(), args, kwargs, "doc?", &p.doc)
}

func builtinEnum(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &paramType{kind: "enum", maxLen: -1}
	var values starlark.Iterable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "values", &values, "doc?", &p.doc); err != nil {
		return nil, err
	}
	i := values.Iterate()
	defer i.Done()
	for v := starlark.Value(nil); i.Next(&v); {
		if err := charge(thread, v); err != nil {
			return nil, err
		}
		frozen, err := state.Freeze(v)
		if err != nil {
			return nil, err
		}
		p.values = append(p.values, frozen)
	}
	if len(p.values) == 0 {
		return nil, fmt.Errorf("enum %q has no values", p.doc)
	}
	return p, nil
}

func builtinArray(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	p := &paramType{kind: "array", maxLen: -1}
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "item", &p.item, "doc?", &p.doc, "min_items??", &p.minLen, "max_items??", &p.maxLen)
	return p, err
}

func builtinObject(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fields *starlark.Dict
	var optional *starlark.List
	doc := ""
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "fields", &fields, "doc?", &doc, "optional?", &optional); err != nil {
		return nil, err
	}
	p, err := objectType(fields, optional)
	if err != nil {
		return nil, err
	}
	p.doc = doc
	return p, nil
}

func builtinOptional(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var p *paramType
	var fallback starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "type", &p, "default?", &fallback); err != nil {
		return nil, err
	}
	o := *p
	o.optional = true
	if fallback != nil {
		frozen, err := state.Freeze(fallback)
		if err != nil {
			return nil, err
		}
		o.fallback = frozen
	}
	return &o, nil
}

func objectType(fields *starlark.Dict, optional *starlark.List) (*paramType, error) {
	p := &paramType{kind: "object", maxLen: -1}
	if fields == nil {
		return p, nil
	}
	left := map[string]bool{}
	if optional != nil {
		for i := range optional.Len() {
			name, _ := starlark.AsString(optional.Index(i))
			left[name] = true
		}
	}
	for _, item := range fields.Items() {
		name, ok := starlark.AsString(item[0])
		t, isType := item[1].(*paramType)
		if !ok || !isType {
			return nil, fmt.Errorf("field %s: want a name and a parameter type such as string(\"what it is\"), got %s", item[0], item[1].Type())
		}
		if left[name] && !t.optional {
			o := *t
			o.optional = true
			t = &o
		}
		delete(left, name)
		p.fields = append(p.fields, field{name: name, key: starlark.String(name), paramType: t})
	}
	for name := range left {
		return nil, fmt.Errorf("optional names %s, which is not a field", name)
	}
	return p, nil
}

// schema is the type as JSON Schema 2020-12.
func (p *paramType) schema() *state.Object {
	var s members
	switch p.kind {
	case "any":
	case "enum":
		s.add("enum", state.NewArray(p.values))
	default:
		s.add("type", starlark.String(p.kind))
	}
	if p.doc != "" {
		s.add("description", starlark.String(p.doc))
	}
	p.schemaBounds(&s)
	if p.item != nil {
		s.add("items", p.item.schema())
	}
	if p.kind == "object" {
		p.schemaFields(&s)
	}
	if p.fallback != nil && p.fallback != starlark.None {
		s.add("default", p.fallback)
	}
	return state.NewObject(s.keys, s.vals)
}

func (p *paramType) schemaBounds(s *members) {
	if p.format != "" {
		s.add("format", starlark.String(p.format))
	}
	if p.pattern != nil {
		s.add("pattern", starlark.String(p.pattern.String()))
	}
	if p.min != nil {
		s.add("minimum", p.min)
	}
	if p.max != nil {
		s.add("maximum", p.max)
	}
	suffix := "Length"
	if p.kind == "array" {
		suffix = "Items"
	}
	if p.minLen > 0 {
		s.add("min"+suffix, starlark.MakeInt(p.minLen))
	}
	if p.maxLen >= 0 {
		s.add("max"+suffix, starlark.MakeInt(p.maxLen))
	}
}

func (p *paramType) schemaFields(s *members) {
	var properties members
	var required []starlark.Value
	for _, f := range p.fields {
		properties.add(f.name, f.schema())
		if !f.optional {
			required = append(required, starlark.String(f.name))
		}
	}
	s.add("properties", state.NewObject(properties.keys, properties.vals))
	s.add("required", state.NewArray(required))
	s.add("additionalProperties", starlark.False)
}

// members collects an object's members in order.
type members struct {
	keys []string
	vals []starlark.Value
}

func (m *members) add(key string, v starlark.Value) {
	m.keys = append(m.keys, key)
	m.vals = append(m.vals, v)
}
