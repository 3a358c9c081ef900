package state_test

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

// The model of the state: plain Go values, copied deeply wherever the state
// shares. *object and *array are mutable; everything else is a scalar.
type object struct {
	keys []string
	vals map[string]any
}

type array struct{ vals []any }

func (o *object) set(k string, v any) {
	if _, ok := o.vals[k]; !ok {
		o.keys = append(o.keys, k)
	}
	o.vals[k] = v
}

func (o *object) drop(k string) {
	delete(o.vals, k)
	o.keys = slices.DeleteFunc(o.keys, func(have string) bool { return have == k })
}

func clone(v any) any {
	switch v := v.(type) {
	case *object:
		c := &object{vals: map[string]any{}}
		for _, k := range v.keys {
			c.set(k, clone(v.vals[k]))
		}
		return c
	case *array:
		c := &array{}
		for _, e := range v.vals {
			c.vals = append(c.vals, clone(e))
		}
		return c
	}
	return v
}

func text(b *strings.Builder, v any) {
	switch v := v.(type) {
	case *object:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "%q:", k)
			text(b, v.vals[k])
		}
		b.WriteByte('}')
	case *array:
		b.WriteByte('[')
		for i, e := range v.vals {
			if i > 0 {
				b.WriteByte(',')
			}
			text(b, e)
		}
		b.WriteByte(']')
	default:
		fmt.Fprint(b, v)
	}
}

func jsonOf(v any) string {
	var b strings.Builder
	text(&b, v)
	return b.String()
}

// plain is a model value as the Starlark dict or list that a domain would store.
func plain(v any) starlark.Value {
	switch v := v.(type) {
	case *object:
		d := starlark.NewDict(len(v.keys))
		for _, k := range v.keys {
			_ = d.SetKey(starlark.String(k), plain(v.vals[k]))
		}
		return d
	case *array:
		l := starlark.NewList(nil)
		for _, e := range v.vals {
			_ = l.Append(plain(e))
		}
		return l
	}
	frozen, err := state.Decode([]byte(v.(string)))
	if err != nil {
		panic(err)
	}
	return frozen
}
