package tau2

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

// decodeTOML reads a TOML document as a frozen value whose tables keep the order
// in which the document first names their keys: one response lists a table's keys.
func decodeTOML(text []byte) (starlark.Value, error) {
	var tables map[string]any
	if err := toml.Unmarshal(text, &tables); err != nil {
		return nil, fmt.Errorf("read TOML: %w", err)
	}
	return frozen(tables, "", keyOrder(text))
}

// keyOrder maps each dotted key of the document to when it is first seen.
func keyOrder(text []byte) map[string]int {
	order := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		path := ""
		if e.Kind == unstable.KeyValue {
			path = table
		}
		for key := e.Key(); key.Next(); {
			path += "." + string(key.Node().Data)
			if _, seen := order[path]; !seen {
				order[path] = len(order)
			}
		}
		if e.Kind != unstable.KeyValue {
			table = path
		}
	}
	return order
}

func frozen(v any, path string, order map[string]int) (starlark.Value, error) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, func(a, b string) int {
			return cmp.Or(cmp.Compare(order[path+"."+a], order[path+"."+b]), cmp.Compare(a, b))
		})
		vals := make([]starlark.Value, len(keys))
		for i, key := range keys {
			var err error
			if vals[i], err = frozen(v[key], path+"."+key, order); err != nil {
				return nil, err
			}
		}
		return state.NewObject(keys, vals), nil
	case []any:
		vals := make([]starlark.Value, len(v))
		for i, item := range v {
			var err error
			if vals[i], err = frozen(item, path, order); err != nil {
				return nil, err
			}
		}
		return state.NewArray(vals), nil
	case string:
		return starlark.String(v), nil
	case bool:
		return starlark.Bool(v), nil
	case int64:
		return starlark.MakeInt64(v), nil
	case float64:
		return starlark.Float(v), nil
	case time.Time:
		return starlark.String(v.Format("2006-01-02T15:04:05")), nil
	case fmt.Stringer: // local dates and times
		return starlark.String(v.String()), nil
	}
	return nil, fmt.Errorf("%s: a TOML %T has no place in a state", path, v)
}
