package starlark

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"understudy/sandbox/state"
)

// addOperators predeclares the hidden functions that guard puts in place of
// operators.
func addOperators(scope starlark.StringDict) {
	add := func(name string, f func(r *run, args starlark.Tuple) (starlark.Value, error)) {
		scope[name] = starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return f(runOf(thread), args)
		})
	}
	add("$add", func(r *run, a starlark.Tuple) (starlark.Value, error) { return plus(r, a[0], a[1]) })
	add("$iadd", func(r *run, a starlark.Tuple) (starlark.Value, error) { return extend(r, a[0], a[1]) })
	add("$mul", func(r *run, a starlark.Tuple) (starlark.Value, error) { return times(r, a[0], a[1]) })
	add("$mod", func(r *run, a starlark.Tuple) (starlark.Value, error) { return modulo(r, a[0], a[1]) })
	add("$shl", func(_ *run, a starlark.Tuple) (starlark.Value, error) { return shift(a[0], a[1]) })
	add("$or", func(r *run, a starlark.Tuple) (starlark.Value, error) { return union(r, a[0], a[1]) })
	add("$eq", func(_ *run, a starlark.Tuple) (starlark.Value, error) {
		eq, err := state.Equal(a[0], a[1])
		return starlark.Bool(eq), err
	})
	add("$ne", func(_ *run, a starlark.Tuple) (starlark.Value, error) {
		eq, err := state.Equal(a[0], a[1])
		return starlark.Bool(!eq), err
	})
	add("$in", func(_ *run, a starlark.Tuple) (starlark.Value, error) {
		in, err := contains(a[0], a[1])
		return starlark.Bool(in), err
	})
	add("$not_in", func(_ *run, a starlark.Tuple) (starlark.Value, error) {
		in, err := contains(a[0], a[1])
		return starlark.Bool(!in), err
	})
	for name, op := range map[string]syntax.Token{"$lt": syntax.LT, "$le": syntax.LE, "$gt": syntax.GT, "$ge": syntax.GE} {
		add(name, func(_ *run, a starlark.Tuple) (starlark.Value, error) { return compare(op, a[0], a[1]) })
	}
	add("$key", func(_ *run, a starlark.Tuple) (starlark.Value, error) { return a[0], hashable(a[0]) })
	add("$dict", func(r *run, a starlark.Tuple) (starlark.Value, error) { return a[0], r.spend(dictBytes) })
	add("$spread", func(r *run, a starlark.Tuple) (starlark.Value, error) {
		return a[0], r.spendSlots(count(a[0]), 2*slotBytes)
	})
	add("$slice", func(r *run, a starlark.Tuple) (starlark.Value, error) { return slice(r, a) })
}

func plus(r *run, x, y starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case starlark.Int, starlark.Float:
		return bounded(starlark.Binary(syntax.PLUS, x, y))
	case starlark.String:
		if y, ok := y.(starlark.String); ok {
			if err := r.spend(int64(len(x)) + int64(len(y))); err != nil {
				return nil, err
			}
			return x + y, nil
		}
	}
	if n, m := starlark.Len(x), starlark.Len(y); n >= 0 && m >= 0 {
		if err := r.spendSlots(n+m, slotBytes); err != nil {
			return nil, err
		}
	}
	return starlark.Binary(syntax.PLUS, x, y)
}

// extend is x += y: in place for lists, plain or live.
func extend(r *run, x, y starlark.Value) (starlark.Value, error) {
	from, iterable := y.(starlark.Iterable)
	switch list := x.(type) {
	case *starlark.List:
		if !iterable {
			return nil, fmt.Errorf("cannot add a %s to a list", y.Type())
		}
		if err := r.spendSlots(count(from), slotBytes); err != nil {
			return nil, err
		}
		for _, e := range listOf(from) {
			if err := list.Append(e); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *state.List:
		if !iterable {
			return nil, fmt.Errorf("cannot add a %s to a list", y.Type())
		}
		if err := r.spendSlots(count(from), slotBytes); err != nil {
			return nil, err
		}
		return list, list.Extend(listOf(from))
	}
	return plus(r, x, y)
}

func times(r *run, x, y starlark.Value) (starlark.Value, error) {
	n, isInt := x.(starlark.Int)
	m, alsoInt := y.(starlark.Int)
	seq, count := x, m
	switch {
	case isInt && alsoInt:
		return product(n, m)
	case isInt:
		seq, count = y, n
	case !alsoInt:
		return starlark.Binary(syntax.STAR, x, y)
	}
	each := slotBytes
	if _, ok := seq.(starlark.String); ok {
		each = 1
	}
	if size := starlark.Len(seq); size > 0 && count.Sign() > 0 {
		k, ok := count.Int64()
		if !ok || k > 1<<31 {
			return nil, errMemory
		}
		if err := r.spendSlots(size*each, int(k)); err != nil {
			return nil, err
		}
	}
	return starlark.Binary(syntax.STAR, x, y)
}

func product(n, m starlark.Int) (starlark.Value, error) {
	_, small := n.Int64()
	_, alsoSmall := m.Int64()
	if (!small || !alsoSmall) && n.BigInt().BitLen()+m.BigInt().BitLen() > maxBits {
		return nil, errBigInt
	}
	return n.Mul(m), nil
}

func modulo(r *run, x, y starlark.Value) (starlark.Value, error) {
	if format, ok := x.(starlark.String); ok {
		return percent(r, string(format), y)
	}
	return starlark.Binary(syntax.PERCENT, x, y)
}

func shift(x, y starlark.Value) (starlark.Value, error) {
	if n, ok := y.(starlark.Int); ok {
		if k, ok := n.Int64(); !ok || k > maxBits {
			return nil, errBigInt
		}
	}
	return bounded(starlark.Binary(syntax.LTLT, x, y))
}

func union(r *run, x, y starlark.Value) (starlark.Value, error) {
	if n, m := starlark.Len(x), starlark.Len(y); n >= 0 && m >= 0 {
		if err := r.spendSlots(n+m, 4*slotBytes); err != nil {
			return nil, err
		}
	}
	if m, ok := x.(*state.Map); ok {
		if err := charge(r.thread, m); err != nil {
			return nil, err
		}
		x = state.Plain(m)
	}
	return starlark.Binary(syntax.PIPE, x, y)
}

func contains(x, y starlark.Value) (bool, error) {
	switch c := y.(type) {
	case *state.Map:
		return c.Has(x)
	case *state.List:
		return c.Has(x)
	case *starlark.List, starlark.Tuple:
		seq := c.(starlark.Indexable)
		visits := maxVisits
		for i := range seq.Len() {
			if eq, err := state.EqualWithin(seq.Index(i), x, &visits); eq || err != nil {
				return eq, err
			}
		}
		return false, nil
	}
	if err := hashable(x); err != nil {
		return false, err
	}
	in, err := starlark.Binary(syntax.IN, x, y)
	if err != nil {
		return false, err
	}
	return bool(in.Truth()), nil
}

// compare orders two values after checking that it cannot take long.
func compare(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	if err := errors.Join(cheapToCompare(x), cheapToCompare(y)); err != nil {
		return nil, err
	}
	b, err := starlark.Compare(op, x, y)
	return starlark.Bool(b), err
}

func cheapToCompare(v starlark.Value) error {
	switch v.(type) {
	case starlark.Tuple, *starlark.List:
		_, err := weigh(v, maxCompares)
		return err
	}
	return nil
}

// slice is x[lo:hi:step].
func slice(r *run, a starlark.Tuple) (starlark.Value, error) {
	x, ok := a[0].(starlark.Sliceable)
	if !ok {
		return nil, fmt.Errorf("a %s has no slices", a[0].Type())
	}
	step := 1
	if a[3] != starlark.None {
		var err error
		if step, err = starlark.AsInt32(a[3]); err != nil || step == 0 {
			return nil, fmt.Errorf("slice step: %s is not a nonzero integer", brief(a[3]))
		}
	}
	n := x.Len()
	lo, hi := 0, n
	if step < 0 {
		lo, hi = n-1, -1
	}
	lo, err := sliceIndex(a[1], lo, n, step)
	if err != nil {
		return nil, err
	}
	hi, err = sliceIndex(a[2], hi, n, step)
	if err != nil {
		return nil, err
	}
	each := slotBytes
	if _, ok := a[0].(starlark.String); ok {
		each = 1
	}
	if err := r.spendSlots((max(hi-lo, lo-hi)+1)/max(step, -step), each); err != nil {
		return nil, err
	}
	if step > 0 && hi < lo {
		hi = lo
	} else if step < 0 && lo < hi {
		lo = hi
	}
	return x.Slice(lo, hi, step), nil
}

// sliceIndex resolves one bound as Python does.
func sliceIndex(v starlark.Value, fallback, n, step int) (int, error) {
	if v == starlark.None {
		return fallback, nil
	}
	i, err := starlark.AsInt32(v)
	if err != nil {
		return 0, fmt.Errorf("slice index: %w", err)
	}
	if i < 0 {
		i += n
	}
	if step > 0 {
		return min(max(i, 0), n), nil
	}
	return min(max(i, -1), n-1), nil
}
