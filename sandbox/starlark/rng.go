package starlark

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"go.starlark.net/starlark"
)

// rng is the seeded generator that state and tasks are given.
type rng struct{ *rand.Rand }

var _ starlark.HasAttrs = (*rng)(nil)

func newRNG(seed uint64, stream string) *rng {
	h := fnv.New64a()
	_, _ = h.Write([]byte(stream))
	return &rng{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// builtinSeeded is seeded(seed): the generator that state(rng) is given for the
// world of that seed, so that a task's maker can look into the task's own world.
func builtinSeeded(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var seed uint64
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "seed", &seed); err != nil {
		return nil, err
	}
	return newRNG(seed, "state"), nil
}

func (g *rng) String() string        { return "rng" }
func (g *rng) Type() string          { return "rng" }
func (g *rng) Freeze()               {}
func (g *rng) Truth() starlark.Bool  { return true }
func (g *rng) Hash() (uint32, error) { return 0, errors.New("unhashable: rng") }

// AttrNames implements starlark.HasAttrs.
func (g *rng) AttrNames() []string {
	return []string{"choice", "float", "int", "sample", "shuffle", "weighted"}
}

// Attr implements starlark.HasAttrs.
func (g *rng) Attr(name string) (starlark.Value, error) {
	f := map[string]builtinFunc{
		"int": g.integer, "float": g.float, "choice": g.choice, "shuffle": g.shuffle, "sample": g.sample, "weighted": g.weighted,
	}[name]
	if f == nil {
		return nil, nil
	}
	return starlark.NewBuiltin("rng."+name, f), nil
}

func (g *rng) integer(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var lo, hi int64
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "lo", &lo, "hi", &hi); err != nil {
		return nil, err
	}
	if lo > hi || hi-lo+1 <= 0 {
		return nil, fmt.Errorf("%s: nothing between %d and %d", b.Name(), lo, hi)
	}
	return starlark.MakeInt64(lo + g.Int64N(hi-lo+1)), nil
}

func (g *rng) float(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.Float(g.Float64()), starlark.UnpackArgs(b.Name(), args, kwargs)
}

func (g *rng) choice(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	vals, err := pool(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	if len(vals) == 0 {
		return nil, fmt.Errorf("%s: nothing to choose from", b.Name())
	}
	return vals[g.IntN(len(vals))], nil
}

func (g *rng) shuffle(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	vals, err := pool(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	g.Shuffle(len(vals), func(i, j int) { vals[i], vals[j] = vals[j], vals[i] })
	return starlark.NewList(vals), runOf(thread).spendSlots(len(vals), slotBytes)
}

func (g *rng) sample(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var it starlark.Iterable
	var k int
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "list", &it, "k", &k); err != nil {
		return nil, err
	}
	vals := listOf(it)
	if k < 0 || k > len(vals) {
		return nil, fmt.Errorf("%s: %d of %d", b.Name(), k, len(vals))
	}
	for i := range k {
		j := i + g.IntN(len(vals)-i)
		vals[i], vals[j] = vals[j], vals[i]
	}
	return starlark.NewList(slices.Clone(vals[:k])), runOf(thread).spendSlots(k, slotBytes)
}

func (g *rng) weighted(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	pairs, err := pool(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	total := 0.0
	weights := make([]float64, len(pairs))
	for i, p := range pairs {
		pair, ok := p.(starlark.Tuple)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("%s: want pairs (value, weight), got %s", b.Name(), brief(p))
		}
		w, ok := starlark.AsFloat(pair[1])
		if !ok || w < 0 {
			return nil, fmt.Errorf("%s: weight %s", b.Name(), brief(pair[1]))
		}
		weights[i] = w
		total += w
	}
	if total <= 0 {
		return nil, fmt.Errorf("%s: the weights sum to nothing", b.Name())
	}
	at := g.Float64() * total
	last := 0
	for i, w := range weights {
		if w > 0 {
			last = i
			if at < w {
				break
			}
		}
		at -= w
	}
	return pairs[last].(starlark.Tuple)[0], nil
}

// pool unpacks one iterable into a fresh slice.
func pool(b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) ([]starlark.Value, error) {
	var it starlark.Iterable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "list", &it); err != nil {
		return nil, err
	}
	return listOf(it), nil
}

func listOf(it starlark.Iterable) []starlark.Value {
	var vals []starlark.Value
	i := it.Iterate()
	defer i.Done()
	for v := starlark.Value(nil); i.Next(&v); {
		vals = append(vals, v)
	}
	return vals
}
