package starlark

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

// addGuarded predeclares guarded versions of Starlark's own functions, and
// refuses those that a domain does not need.
func addGuarded(scope starlark.StringDict) {
	addOperators(scope)
	for name, cost := range map[string]func(*run, starlark.Tuple) error{
		"list": costOfElements, "tuple": costOfElements, "reversed": costOfElements, "zip": costOfElements, "enumerate": costOfElements,
		"dict": costOfDict, "any": nil, "all": nil, "len": nil,
		"int": costOfNumber, "float": costOfNumber,
	} {
		scope[name] = guardedUniversal(name, cost)
	}
	scope["range"] = starlark.NewBuiltin("range", guardedRange)
	scope["str"] = starlark.NewBuiltin("str", builtinText)
	scope["repr"] = starlark.NewBuiltin("repr", builtinReprPy)
	scope["sorted"] = starlark.NewBuiltin("sorted", builtinSorted)
	scope["min"] = starlark.NewBuiltin("min", builtinExtreme)
	scope["max"] = starlark.NewBuiltin("max", builtinExtreme)
	scope["print"] = starlark.NewBuiltin("print", builtinPrint)
	scope["fail"] = starlark.NewBuiltin("fail", builtinFail)
	scope["type"] = starlark.NewBuiltin("type", guardedType)
	scope["$method"] = starlark.NewBuiltin("method", guardedMethod)
	for _, name := range []string{"getattr", "dir", "hash", "bytes", "set"} {
		scope[name] = starlark.NewBuiltin(name, func(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return nil, fmt.Errorf("%s is not offered", b.Name())
		})
	}
}

// guardedUniversal is a function of Starlark's own behind a charge.
func guardedUniversal(name string, cost func(*run, starlark.Tuple) error) *starlark.Builtin {
	inner := starlark.Universe[name].(*starlark.Builtin)
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		for _, kv := range kwargs {
			if key := string(kv[0].(starlark.String)); name != "dict" && key != "base" { // a cost looks at positions
				return nil, fmt.Errorf("%s: give %s by its position, not by name", name, key)
			}
		}
		if cost != nil {
			if err := cost(runOf(thread), args); err != nil {
				return nil, err
			}
		}
		return inner.CallInternal(thread, args, kwargs)
	})
}

func costOfElements(r *run, args starlark.Tuple) error {
	for _, a := range args {
		if err := r.spendSlots(count(a), 4*slotBytes); err != nil {
			return err
		}
	}
	return nil
}

func costOfDict(r *run, args starlark.Tuple) error {
	if err := r.spend(dictBytes); err != nil {
		return err
	}
	if len(args) == 0 {
		return nil
	}
	if err := r.spendSlots(count(args[0]), 8*slotBytes); err != nil {
		return err
	}
	return r.hashableKeys(args[0])
}

// hashableKeys checks the keys of a list of pairs, and charges the long ones.
func (r *run) hashableKeys(v starlark.Value) error {
	if _, ok := v.(starlark.IterableMapping); ok {
		return nil // its keys were hashed before
	}
	pairs, ok := v.(starlark.Indexable)
	if !ok {
		return nil
	}
	for i := range pairs.Len() {
		if pair, ok := pairs.Index(i).(starlark.Indexable); ok && pair.Len() > 0 {
			key := pair.Index(0)
			if err := hashable(key); err != nil {
				return err
			}
			if err := r.toil(1 + max(starlark.Len(key), 0)/textToil); err != nil {
				return err
			}
		}
	}
	return nil
}

// costOfNumber bounds the text that int and float read: reading is quadratic.
func costOfNumber(_ *run, args starlark.Tuple) error {
	if len(args) > 0 {
		if s, ok := args[0].(starlark.String); ok && len(s) > maxBits {
			return errBigInt
		}
	}
	return nil
}

func guardedRange(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Universe["range"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
	if err != nil {
		return nil, err
	}
	if n := starlark.Len(v); n > maxRange {
		return nil, fmt.Errorf("range: %d elements; the limit is %d", n, maxRange)
	}
	return v, nil
}

// builtinPrint prints nothing: a domain has nobody to print to.
func builtinPrint(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return starlark.None, nil
}

// builtinFail is fail(*args): the domain's own fault, with what it says.
func builtinFail(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	texts := make([]string, len(args))
	for i, v := range args {
		if err := charge(thread, v); err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name(), err)
		}
		texts[i] = pyText(v)
	}
	return nil, errors.New("fail: " + strings.Join(texts, " "))
}

// guardedType names live handles as what they stand for.
func guardedType(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &v); err != nil {
		return nil, err
	}
	switch v.(type) {
	case *state.Map:
		return starlark.String("dict"), nil
	case *state.List:
		return starlark.String("list"), nil
	}
	return starlark.String(v.Type()), nil
}

// guardedMethod is x.name(args...) behind a charge.
func guardedMethod(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	recv, name, rest := args[0], string(args[1].(starlark.String)), args[2:]
	r := runOf(thread)
	if s, ok := recv.(starlark.String); ok {
		if name == "format" {
			return formatText(r, string(s), rest, kwargs)
		}
		if err := costOfText(r, string(s), name, rest); err != nil {
			return nil, err
		}
	} else if err := costOfMethod(r, recv, name, rest); err != nil {
		return nil, err
	}
	holder, ok := recv.(starlark.HasAttrs)
	if !ok {
		return nil, fmt.Errorf("a %s has no method %s", recv.Type(), name)
	}
	fn, err := holder.Attr(name)
	if err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, fmt.Errorf("a %s has no method %s", recv.Type(), name)
	}
	return starlark.Call(thread, fn, rest, kwargs)
}

// costOfText charges what a string method returns.
func costOfText(r *run, s, name string, args starlark.Tuple) error {
	switch name {
	case "join":
		return costOfJoin(r, s, args)
	case "replace":
		return costOfReplace(r, s, args)
	case "split", "rsplit", "splitlines", "elems", "codepoints", "elem_ords", "codepoint_ords":
		return r.spendSlots(len(s)+1, slotBytes)
	}
	return r.spend(int64(len(s)))
}

func costOfJoin(r *run, s string, args starlark.Tuple) error {
	if len(args) != 1 {
		return nil
	}
	it, ok := args[0].(starlark.Iterable)
	if !ok {
		return nil
	}
	total := int64(0)
	i := it.Iterate()
	defer i.Done()
	for v := starlark.Value(nil); i.Next(&v); {
		if part, ok := v.(starlark.String); ok {
			total += int64(len(part))
		}
		total += int64(len(s))
	}
	return r.spend(total)
}

func costOfReplace(r *run, s string, args starlark.Tuple) error {
	if len(args) < 2 {
		return nil
	}
	old, ok1 := args[0].(starlark.String)
	now, ok2 := args[1].(starlark.String)
	if !ok1 || !ok2 {
		return nil
	}
	if err := r.spendSlots(strings.Count(s, string(old)), len(now)); err != nil {
		return err
	}
	return r.spend(int64(len(s)))
}

// costOfMethod charges methods of lists and dicts, plain or live.
func costOfMethod(r *run, recv starlark.Value, name string, args starlark.Tuple) error {
	switch name {
	case "get", "pop", "setdefault":
		if len(args) > 0 {
			return hashable(args[0])
		}
	case "items":
		return r.spendSlots(max(starlark.Len(recv), 0), 4*slotBytes)
	case "keys", "values":
		return r.spendSlots(max(starlark.Len(recv), 0), 2*slotBytes)
	case "extend":
		if len(args) > 0 {
			return r.spendSlots(count(args[0]), slotBytes)
		}
	case "update":
		if len(args) > 0 {
			return errors.Join(r.spendSlots(count(args[0]), 8*slotBytes), r.hashableKeys(args[0]))
		}
	case "index", "remove":
		if err := cheapToCompare(recv); err != nil {
			return err
		}
		if len(args) > 0 {
			return cheapToCompare(args[0])
		}
	}
	return nil
}
