package state

import (
	"errors"
	"fmt"
	"slices"

	"go.starlark.net/starlark"
)

// method is the body of a dict or list method of the live handle that is b's receiver.
type method = func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error)

// Attr implements starlark.HasAttrs: methods only, never keys, since
// order["items"] and order.items() would clash.
func (m *Map) Attr(name string) (starlark.Value, error) {
	return bind(m, name, mapMethod(name))
}

// AttrNames implements starlark.HasAttrs.
func (m *Map) AttrNames() []string {
	return []string{"clear", "get", "items", "keys", "pop", "setdefault", "update", "values"}
}

// Attr implements starlark.HasAttrs.
func (l *List) Attr(name string) (starlark.Value, error) {
	return bind(l, name, listMethod(name))
}

// AttrNames implements starlark.HasAttrs.
func (l *List) AttrNames() []string {
	return []string{"append", "clear", "extend", "index", "insert", "pop", "remove"}
}

func bind(recv starlark.Value, name string, f method) (starlark.Value, error) {
	if f == nil {
		return nil, nil
	}
	return starlark.NewBuiltin(name, f).BindReceiver(recv), nil
}

func mapMethod(name string) method {
	switch name {
	case "get":
		return mapGet
	case "pop":
		return mapPop
	case "setdefault":
		return mapSetdefault
	case "update":
		return mapUpdate
	case "keys":
		return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			m := b.Receiver().(*Map)
			return starlark.NewList(m.keys()), starlark.UnpackArgs(b.Name(), args, kwargs)
		}
	case "values":
		return mapValues
	case "items":
		return mapItems
	case "clear":
		return mapClear
	}
	return nil
}

func mapGet(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	m := b.Receiver().(*Map)
	var key starlark.Value
	var fallback starlark.Value = starlark.None
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &key, &fallback); err != nil {
		return nil, err
	}
	if v, found, _ := m.Get(key); found {
		return v, nil
	}
	return fallback, nil
}

func mapPop(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	m := b.Receiver().(*Map)
	var key starlark.String
	var fallback starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &key, &fallback); err != nil {
		return nil, err
	}
	v, err := m.remove(string(key))
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		return v, nil
	case fallback != nil:
		return fallback, nil
	}
	return nil, fmt.Errorf("pop: missing key %q", string(key))
}

func mapSetdefault(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	m := b.Receiver().(*Map)
	var key starlark.String
	var fallback starlark.Value = starlark.None
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &key, &fallback); err != nil {
		return nil, err
	}
	if v := m.lookup(string(key)); v != nil {
		return v, nil
	}
	if err := m.set(string(key), fallback); err != nil {
		return nil, err
	}
	return m.lookup(string(key)), nil
}

func mapUpdate(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	m := b.Receiver().(*Map)
	var from starlark.IterableMapping
	if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 0, &from); err != nil {
		return nil, err
	}
	var items []starlark.Tuple
	if from != nil {
		items = from.Items()
	}
	for _, item := range append(items, kwargs...) {
		if err := m.SetKey(item[0], item[1]); err != nil {
			return nil, err
		}
	}
	return starlark.None, nil
}

func mapValues(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	m := b.Receiver().(*Map)
	vals := m.keys()
	for i, k := range vals {
		vals[i] = m.lookup(string(k.(starlark.String)))
	}
	return starlark.NewList(vals), starlark.UnpackArgs(b.Name(), args, kwargs)
}

func mapItems(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	m := b.Receiver().(*Map)
	items := m.Items()
	vals := make([]starlark.Value, len(items))
	for i, item := range items {
		vals[i] = item
	}
	return starlark.NewList(vals), starlark.UnpackArgs(b.Name(), args, kwargs)
}

func mapClear(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	m := b.Receiver().(*Map)
	if err := starlark.UnpackArgs(b.Name(), args, kwargs); err != nil {
		return nil, err
	}
	for _, k := range m.keys() {
		if _, err := m.remove(string(k.(starlark.String))); err != nil {
			return nil, err
		}
	}
	return starlark.None, nil
}

func listMethod(name string) method {
	switch name {
	case "append":
		return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			l := b.Receiver().(*List)
			var v starlark.Value
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &v); err != nil {
				return nil, err
			}
			return starlark.None, l.insert(l.Len(), v)
		}
	case "extend":
		return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			l := b.Receiver().(*List)
			var from starlark.Iterable
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &from); err != nil {
				return nil, err
			}
			return starlark.None, l.insert(l.Len(), elements(from)...)
		}
	case "clear":
		return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			l := b.Receiver().(*List)
			if err := starlark.UnpackArgs(b.Name(), args, kwargs); err != nil {
				return nil, err
			}
			return starlark.None, l.clear()
		}
	case "insert":
		return listInsert
	case "pop":
		return listPop
	case "remove":
		return listRemove
	case "index":
		return listIndex
	}
	return nil
}

func listInsert(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	l := b.Receiver().(*List)
	var i int
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &i, &v); err != nil {
		return nil, err
	}
	if i < 0 {
		i += l.Len()
	}
	return starlark.None, l.insert(min(max(i, 0), l.Len()), v)
}

func listPop(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	l := b.Receiver().(*List)
	i := -1
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 0, &i); err != nil {
		return nil, err
	}
	if i < 0 {
		i += l.Len()
	}
	if i < 0 || i >= l.Len() {
		return nil, errors.New("pop: index out of range")
	}
	return l.remove(i)
}

func listRemove(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	l := b.Receiver().(*List)
	i, err := listFind(l, b, args, kwargs)
	if err != nil {
		return nil, err
	}
	_, err = l.remove(i)
	return starlark.None, err
}

func listIndex(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	i, err := listFind(b.Receiver().(*List), b, args, kwargs)
	return starlark.MakeInt(i), err
}

func listFind(l *List, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (int, error) {
	var want starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &want); err != nil {
		return 0, err
	}
	var failed error
	budget := searchBudget
	i := slices.IndexFunc(l.all(), func(v starlark.Value) bool {
		if failed != nil {
			return false
		}
		eq, err := EqualWithin(v, want, &budget)
		if err != nil {
			failed = err
		}
		return eq
	})
	if failed == nil && i < 0 {
		failed = fmt.Errorf("%s: value not found", b.Name())
	}
	return i, failed
}
