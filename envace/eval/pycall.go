package eval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"go.starlark.net/syntax"

	"understudy/audit"
)

// ParsePythonCall reads a call in Python's notation, as benchmarks write reference
// calls: name(value, key=value), the values being literals. parameters are the names
// of a tool's parameters in order, for values without one; nil for an unknown tool.
func ParsePythonCall(text string, parameters func(tool string) []string) (audit.Call, error) {
	fail := func(format string, args ...any) (audit.Call, error) {
		return audit.Call{}, fmt.Errorf("reference call %s: "+format, append([]any{text}, args...)...)
	}
	expr, err := (&syntax.FileOptions{}).ParseExpr("call", text, 0)
	if err != nil {
		return fail("%w", err)
	}
	call, ok := expr.(*syntax.CallExpr)
	if !ok {
		return fail("it is no call")
	}
	var name string
	switch fn := call.Fn.(type) {
	case *syntax.Ident:
		name = fn.Name
	case *syntax.DotExpr: // Class.method
		name = fn.Name.Name
	default:
		return fail("it has no name")
	}
	names, arguments := parameters(name), map[string]any{}
	for i, arg := range call.Args {
		var key string
		value := arg
		if named, ok := arg.(*syntax.BinaryExpr); ok && named.Op == syntax.EQ {
			id, ok := named.X.(*syntax.Ident)
			if !ok {
				return fail("argument %d has no name", i+1)
			}
			key, value = id.Name, named.Y
		} else if i < len(names) {
			key = names[i]
		} else {
			return fail("argument %d has no name, and the tool has %d parameters", i+1, len(names))
		}
		if arguments[key], err = literal(value); err != nil {
			return fail("argument %s: %w", key, err)
		}
	}
	encoded, err := json.Marshal(arguments)
	if err != nil {
		return fail("%w", err)
	}
	return audit.Call{Tool: name, Arguments: encoded}, nil
}

// literal is the value of a Python literal.
func literal(expr syntax.Expr) (any, error) {
	switch e := expr.(type) {
	case *syntax.ParenExpr:
		return literal(e.X)
	case *syntax.Literal:
		if e.Token == syntax.INT || e.Token == syntax.FLOAT {
			return number(e.Raw, e.Value)
		}
		return e.Value, nil
	case *syntax.Ident:
		constants := map[string]any{"True": true, "False": false, "None": nil, "true": true, "false": false, "null": nil}
		value, known := constants[e.Name]
		if !known {
			return nil, fmt.Errorf("%s is no literal", e.Name)
		}
		return value, nil
	case *syntax.UnaryExpr:
		if inner, ok := e.X.(*syntax.Literal); ok && (e.Op == syntax.MINUS || e.Op == syntax.PLUS) {
			value, err := literal(inner)
			if n, ok := value.(json.Number); ok && e.Op == syntax.MINUS {
				return "-" + n, err
			}
			return value, err
		}
	case *syntax.ListExpr:
		return literals(e.List)
	case *syntax.TupleExpr:
		return literals(e.List)
	case *syntax.DictExpr:
		return object(e)
	}
	return nil, fmt.Errorf("%T is no literal", expr)
}

// number keeps 25.0 apart from 25; JSON has no other notations than decimal.
func number(raw string, value any) (any, error) {
	if json.Valid([]byte(raw)) {
		return json.Number(raw), nil
	}
	if f, ok := value.(float64); ok {
		return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), nil
	}
	return json.Number(fmt.Sprint(value)), nil
}

func literals(list []syntax.Expr) (any, error) {
	out := make([]any, len(list))
	for i, e := range list {
		var err error
		if out[i], err = literal(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func object(dict *syntax.DictExpr) (any, error) {
	out := map[string]any{}
	for _, e := range dict.List {
		entry, ok := e.(*syntax.DictEntry)
		if !ok {
			return nil, fmt.Errorf("%T is no entry", e)
		}
		key, err := literal(entry.Key)
		if err != nil {
			return nil, err
		}
		if out[fmt.Sprint(key)], err = literal(entry.Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// missing are the reference's items that the others lack, each of them counting once:
// order does not matter, number does.
func missing(reference, others []string) []string {
	left := slices.Clone(others)
	var out []string
	for _, item := range reference {
		if i := slices.Index(left, item); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		out = append(out, item)
	}
	return out
}
