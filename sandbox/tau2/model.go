package tau2

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

// A model is the shape that tau2-bench gives to one kind of record: its fields in
// order, their defaults, and which numbers are floats. Loading through it fills
// absent fields and drops unknown ones, so that states and responses have the
// reference's fields in the reference's order.
type model []field

// field is one member of a model. Its kind is "float", "any", "datetime", "number"
// (kept as written), or a nested shape.
type field struct {
	name     string
	kind     string
	nested   model          // of an object, or of each value of list/map
	shape    string         // "", "object", "list" or "map"
	fallback starlark.Value // of an absent field; nil = required
}

// fields reads "name", "name:float", "name=null": the compact way to write a model.
func fields(names ...string) model {
	m := make(model, len(names))
	for i, text := range names {
		name, fallback, hasDefault := strings.Cut(text, "=")
		name, kind, _ := strings.Cut(name, ":")
		m[i] = field{name: name, kind: kind}
		if hasDefault {
			m[i].fallback = defaultValue(fallback)
		}
	}
	return m
}

func defaultValue(text string) starlark.Value {
	v, err := state.Decode([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("default %q of a model: %v", text, err)) // a model of this package
	}
	return v
}

func object(name string, m model) field   { return field{name: name, shape: "object", nested: m} }
func list(name string, m model) field     { return field{name: name, shape: "list", nested: m} }
func mapping(name string, m model) field  { return field{name: name, shape: "map", nested: m} }
func (m model) with(extra ...field) model { return append(slices.Clip(m), extra...) }

// or gives a nested field a default.
func (f field) or(text string) field {
	f.fallback = defaultValue(text)
	return f
}

// load puts v, a frozen value at the pointer at, into the model's shape.
func (m model) load(v starlark.Value, at string) (starlark.Value, error) {
	o, ok := v.(*state.Object)
	if !ok {
		return nil, fmt.Errorf("%s: want an object, got %s", at, state.JSONType(v))
	}
	var keys []string
	var vals []starlark.Value
	for _, f := range m {
		member := o.Get(f.name)
		if member == nil {
			member = f.fallback
		}
		if member == nil {
			if strings.HasPrefix(f.kind, "optional") { // a member that only some variants have
				continue
			}
			return nil, fmt.Errorf("%s/%s: required, but missing", at, f.name)
		}
		loaded, err := f.load(member, at+"/"+f.name)
		if err != nil {
			return nil, err
		}
		keys, vals = append(keys, f.name), append(vals, loaded)
	}
	return state.NewObject(keys, vals), nil
}

func (f field) load(v starlark.Value, at string) (starlark.Value, error) {
	switch f.shape {
	case "object":
		if v == starlark.None {
			return v, nil
		}
		return f.nested.load(v, at)
	case "list":
		a, ok := v.(*state.Array)
		if !ok {
			return nil, fmt.Errorf("%s: want a list, got %s", at, state.JSONType(v))
		}
		out := make([]starlark.Value, a.Len())
		for i := range out {
			var err error
			if out[i], err = f.nested.load(a.At(i), fmt.Sprintf("%s/%d", at, i)); err != nil {
				return nil, err
			}
		}
		return state.NewArray(out), nil
	case "map":
		return f.loadMap(v, at)
	}
	return scalar(v, f.kind), nil
}

func (f field) loadMap(v starlark.Value, at string) (starlark.Value, error) {
	o, ok := v.(*state.Object)
	if !ok {
		return nil, fmt.Errorf("%s: want an object, got %s", at, state.JSONType(v))
	}
	var keys []string
	var vals []starlark.Value
	var bad error
	o.Each(func(key string, v starlark.Value) bool {
		var loaded starlark.Value
		if loaded, bad = f.nested.load(v, at+"/"+key); bad != nil {
			return false
		}
		keys, vals = append(keys, key), append(vals, loaded)
		return true
	})
	return state.NewObject(keys, vals), bad
}

// scalar applies a kind: a float field holds 25.0 where the file says 25, and a
// datetime is written as Python's str() writes it.
func scalar(v starlark.Value, kind string) starlark.Value {
	switch kind {
	case "float", "optionalfloat":
		if i, ok := v.(starlark.Int); ok {
			return i.Float()
		}
	case "datetime":
		if s, ok := starlark.AsString(v); ok {
			return starlark.String(strings.Replace(s, "T", " ", 1))
		}
	}
	return v
}
