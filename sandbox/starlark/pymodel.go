package starlark

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// builtinHashable is hashable(x): x, or Python's TypeError for using x as a key.
func builtinHashable(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &v); err != nil {
		return nil, err
	}
	switch v.(type) {
	case *starlark.List, *starlark.Dict:
		return nil, pythonRefusal("unhashable type: '%s'", pyType(v))
	}
	return v, nil
}

// builtinPyLower is lower(s): s.lower(), or the AttributeError of what has none.
func builtinPyLower(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "s", &v); err != nil {
		return nil, err
	}
	s, ok := starlark.AsString(v)
	if !ok {
		return nil, pythonRefusal("'%s' object has no attribute 'lower'", pyType(v))
	}
	return starlark.String(strings.ToLower(s)), runOf(thread).spend(int64(len(s)))
}

// builtinPyType is py_type(x): Python's name for the type of x.
func builtinPyType(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &v); err != nil {
		return nil, err
	}
	return starlark.String(pyType(v)), nil
}

func pythonRefusal(format string, args ...any) error {
	return &refusal{family: audit.SchemaInvalid, message: fmt.Sprintf(format, args...)}
}

// pyType is Python's name for the type of a value.
func pyType(v starlark.Value) string {
	switch state.JSONType(v) {
	case "null":
		return "NoneType"
	case "boolean":
		return "bool"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "string":
		return "str"
	case "array":
		return "list"
	case "object":
		return "dict"
	}
	return v.Type()
}

// modelError is one line of a pydantic ValidationError.
type modelError struct {
	field, reason, code string
	input               starlark.Value
}

// builtinChecked is checked(model, fields, value, extra=True): a dict with the
// model's fields in their order, each coerced as pydantic does in its lax mode,
// or pydantic's ValidationError as the refusal. A field is a type name ("str",
// "int", "float", "bool", with "?" where None is allowed), a list of literals, or
// {"type"/"enum": ..., "default": ...}. extra=False forbids unknown fields.
func builtinChecked(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var model string
	var fields, given *starlark.Dict
	extra := true
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "model", &model, "fields", &fields, "value", &given, "extra?", &extra); err != nil {
		return nil, err
	}
	out := starlark.NewDict(fields.Len())
	var errs []modelError
	for _, item := range fields.Items() {
		name := pyText(item[0])
		v, e := modelField(item[1], given, item[0])
		if e != nil {
			e.field = name
			errs = append(errs, *e)
			continue
		}
		_ = out.SetKey(item[0], v) // names hash
	}
	for _, item := range given.Items() {
		if _, known, _ := fields.Get(item[0]); !known && !extra {
			errs = append(errs, modelError{pyText(item[0]), "Extra inputs are not permitted", "extra_forbidden", item[1]})
		}
	}
	if len(errs) > 0 {
		return nil, pythonRefusal("%s", validationText(model, errs))
	}
	return out, nil
}

// modelField validates one field of given.
func modelField(spec starlark.Value, given *starlark.Dict, name starlark.Value) (starlark.Value, *modelError) {
	kind, fallback, enum := spec, starlark.Value(nil), starlark.Value(nil)
	if d, ok := spec.(*starlark.Dict); ok {
		kind, fallback, enum = member(d, "type"), member(d, "default"), member(d, "enum")
	}
	v, present, _ := given.Get(name)
	switch {
	case !present && fallback != nil:
		return fallback, nil
	case !present:
		return nil, &modelError{reason: "Field required", code: "missing", input: given}
	case enum != nil:
		return literal(v, enum, "enum")
	}
	if s, ok := starlark.AsString(kind); ok {
		return coerce(v, s)
	}
	return literal(v, kind, "literal_error")
}

// member is d[key], or nil.
func member(d *starlark.Dict, key string) starlark.Value {
	if v, ok, _ := d.Get(starlark.String(key)); ok {
		return v
	}
	return nil
}

// literal accepts a value of a closed list.
func literal(v, list starlark.Value, code string) (starlark.Value, *modelError) {
	values, ok := list.(starlark.Indexable)
	if !ok || values.Len() < 2 {
		return nil, &modelError{reason: "the domain's field is neither a type nor a list of values", code: "domain_error", input: v}
	}
	var names []string
	for i := range values.Len() {
		if eq, err := starlark.Equal(v, values.Index(i)); err == nil && eq {
			return v, nil
		}
		names = append(names, "'"+pyText(values.Index(i))+"'")
	}
	last := len(names) - 1
	reason := "Input should be " + strings.Join(names[:last], ", ") + " or " + names[last]
	return nil, &modelError{reason: reason, code: code, input: v}
}

// coerce is pydantic's lax conversion of one scalar.
func coerce(v starlark.Value, kind string) (starlark.Value, *modelError) {
	name, optional := strings.CutSuffix(kind, "?")
	if optional && v == starlark.None {
		return v, nil
	}
	fail := func(reason, code string) (starlark.Value, *modelError) {
		return nil, &modelError{reason: reason, code: code, input: v}
	}
	switch name {
	case "str":
		if _, ok := v.(starlark.String); !ok {
			return fail("Input should be a valid string", "string_type")
		}
		return v, nil
	case "int":
		return coerceInt(v, fail)
	case "float":
		return coerceFloat(v, fail)
	case "bool":
		return coerceBool(v, fail)
	}
	return fail("unknown type "+kind, "domain_error")
}

type failFunc func(reason, code string) (starlark.Value, *modelError)

func coerceInt(v starlark.Value, fail failFunc) (starlark.Value, *modelError) {
	switch v := v.(type) {
	case starlark.Int:
		return v, nil
	case starlark.Bool:
		return boolInt(v), nil
	case starlark.Float:
		if f := float64(v); f != math.Trunc(f) || math.IsInf(f, 0) {
			return fail("Input should be a valid integer, got a number with a fractional part", "int_from_float")
		}
		i, err := starlark.NumberToInt(v)
		if err != nil {
			return fail("Input should be a finite number", "finite_number")
		}
		return i, nil
	case starlark.String:
		text := strings.TrimSpace(string(v))
		if whole, zeros, ok := strings.Cut(text, "."); ok && strings.Trim(zeros, "0") == "" {
			text = whole
		}
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return starlark.MakeInt64(i), nil
		}
		return fail("Input should be a valid integer, unable to parse string as an integer", "int_parsing")
	}
	return fail("Input should be a valid integer", "int_type")
}

func coerceFloat(v starlark.Value, fail failFunc) (starlark.Value, *modelError) {
	switch v := v.(type) {
	case starlark.Float:
		return v, nil
	case starlark.Int:
		return v.Float(), nil
	case starlark.Bool:
		return boolInt(v).Float(), nil
	case starlark.String:
		if f, err := strconv.ParseFloat(strings.TrimSpace(string(v)), 64); err == nil {
			return starlark.Float(f), nil
		}
		return fail("Input should be a valid number, unable to parse string as a number", "float_parsing")
	}
	return fail("Input should be a valid number", "float_type")
}

func coerceBool(v starlark.Value, fail failFunc) (starlark.Value, *modelError) {
	words := map[string]bool{
		"1": true, "t": true, "true": true, "y": true, "yes": true, "on": true, "1.0": true,
		"0": false, "f": false, "false": false, "n": false, "no": false, "off": false, "0.0": false,
	}
	switch v := v.(type) {
	case starlark.Bool:
		return v, nil
	case starlark.Int, starlark.Float, starlark.String:
		if is, ok := words[strings.ToLower(pyText(v))]; ok {
			return starlark.Bool(is), nil
		}
		return fail("Input should be a valid boolean, unable to interpret input", "bool_parsing")
	}
	return fail("Input should be a valid boolean", "bool_type")
}

// validationText is str(ValidationError) of pydantic 2.13.
func validationText(model string, errs []modelError) string {
	plural := "s"
	if len(errs) == 1 {
		plural = ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d validation error%s for %s", len(errs), plural, model)
	for _, e := range errs {
		fmt.Fprintf(&b, "\n%s\n  %s [type=%s, input_value=%s, input_type=%s]", e.field, e.reason, e.code, shortRepr(e.input), pyType(e.input))
		fmt.Fprintf(&b, "\n    For further information visit https://errors.pydantic.dev/2.13/v/%s", e.code)
	}
	return b.String()
}

// shortRepr is a value's repr as pydantic cuts it: of more than 50 characters the
// first 25 and the last 24.
func shortRepr(v starlark.Value) string {
	text := string(appendRepr(nil, v, 0))
	if utf8.RuneCountInString(text) <= 50 {
		return text
	}
	runes := []rune(text)
	return string(runes[:25]) + "..." + string(runes[len(runes)-24:])
}

func boolInt(b starlark.Bool) starlark.Int {
	if b {
		return starlark.MakeInt(1)
	}
	return starlark.MakeInt(0)
}
