package state_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"go.starlark.net/starlark"

	"understudy/audit/diff"
	"understudy/sandbox/state"
)

// walker drives one transaction and the model side by side.
type walker struct {
	t     *testing.T
	r     *rand.Rand
	root  starlark.Value
	model *object
	stale []starlark.Value
	kinds map[string]int
}

func (w *walker) scalar() any {
	return []string{
		"null", "true", "false", strconv.Itoa(w.r.IntN(9)), strconv.Itoa(w.r.IntN(9)) + ".5", "1.0", "1", `"é` + strconv.Itoa(w.r.IntN(9)) + `"`,
		"123456789012345678901234567890",
	}[w.r.IntN(9)]
}

func (w *walker) value(depth int) any {
	switch n := w.r.IntN(6); {
	case n == 0 && depth < 3:
		o := &object{vals: map[string]any{}}
		for range w.r.IntN(4) {
			o.set(w.key(), w.value(depth+1))
		}
		return o
	case n == 1 && depth < 3:
		a := &array{}
		for range w.r.IntN(4) {
			a.vals = append(a.vals, w.value(depth+1))
		}
		return a
	}
	return w.scalar()
}

func (w *walker) key() string {
	if w.r.IntN(4) == 0 {
		return "k" + strconv.Itoa(w.r.IntN(60)) // enough of them to make an object wide
	}
	return "k" + strconv.Itoa(w.r.IntN(8))
}

// pick walks down both trees at random to a container.
func (w *walker) pick() (starlark.Value, any) {
	live := w.root
	var model any = w.model
	for w.r.IntN(3) > 0 {
		next, child := w.child(live, model)
		if child == nil {
			break
		}
		live, model = next, child
	}
	return live, model
}

// child picks a container inside, or nil.
func (w *walker) child(live starlark.Value, model any) (starlark.Value, any) {
	switch m := model.(type) {
	case *object:
		if len(m.keys) > 0 {
			k := m.keys[w.r.IntN(len(m.keys))]
			v, found, err := live.(starlark.Mapping).Get(starlark.String(k))
			if err != nil || !found {
				w.t.Fatalf("get %s: %v, found %v", k, err, found)
			}
			return v, container(m.vals[k])
		}
	case *array:
		if len(m.vals) > 0 {
			i := w.r.IntN(len(m.vals))
			return live.(starlark.Indexable).Index(i), container(m.vals[i])
		}
	}
	return nil, nil
}

func container(v any) any {
	switch v.(type) {
	case *object, *array:
		return v
	}
	return nil
}

func (w *walker) method(recv starlark.Value, name string, args ...starlark.Value) (starlark.Value, error) {
	fn, err := recv.(starlark.HasAttrs).Attr(name)
	if err != nil || fn == nil {
		w.t.Fatalf("%s has no method %s", recv.Type(), name)
	}
	return starlark.Call(&starlark.Thread{}, fn, args, nil)
}

func (w *walker) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("a legal write failed: %v", err)
	}
}

// incoming is a value to store: new, or an alias of something that already lives.
func (w *walker) incoming() (starlark.Value, any) {
	if w.r.IntN(4) == 0 {
		live, model := w.pick()
		if live != w.root {
			w.kinds["alias"]++
			return live, clone(model)
		}
	}
	v := w.value(1)
	return plain(v), v
}

func (w *walker) step() {
	live, model := w.pick()
	switch m := model.(type) {
	case *object:
		w.objectStep(live, m)
	case *array:
		w.arrayStep(live, m)
	}
}

func (w *walker) objectStep(live starlark.Value, m *object) {
	k := w.key()
	old, had := m.vals[k]
	switch w.r.IntN(5) {
	case 0, 1, 2:
		v, mv := w.incoming()
		w.kinds["set"]++
		if had && container(old) != nil {
			was, _, _ := live.(starlark.Mapping).Get(starlark.String(k))
			if was != v {
				w.stale = append(w.stale, was)
			}
		}
		w.must(live.(starlark.HasSetKey).SetKey(starlark.String(k), v))
		m.set(k, mv)
	case 3:
		if !had {
			return
		}
		w.kinds["pop"]++
		was, err := w.method(live, "pop", starlark.String(k))
		w.must(err)
		m.drop(k)
		if container(old) == nil {
			return
		}
		if w.r.IntN(2) == 0 { // move it elsewhere
			to, mt := w.pick()
			if o, ok := mt.(*object); ok {
				w.kinds["move"]++
				key := w.key()
				w.must(to.(starlark.HasSetKey).SetKey(starlark.String(key), was))
				o.set(key, old)
				return
			}
		}
		w.stale = append(w.stale, was)
	case 4:
		w.kinds["read"]++
		_ = live.String()
	}
}

func (w *walker) arrayStep(live starlark.Value, m *array) {
	n := len(m.vals)
	switch w.r.IntN(6) {
	case 0, 1:
		v, mv := w.incoming()
		w.kinds["append"]++
		_, err := w.method(live, "append", v)
		w.must(err)
		m.vals = append(m.vals, mv)
	case 2:
		v, mv := w.incoming()
		i := w.r.IntN(n + 1)
		w.kinds["insert"]++
		_, err := w.method(live, "insert", starlark.MakeInt(i), v)
		w.must(err)
		m.vals = slices.Insert(m.vals, i, mv)
	case 3:
		if n > 0 {
			i := w.r.IntN(n)
			w.kinds["remove"]++
			_, err := w.method(live, "pop", starlark.MakeInt(i))
			w.must(err)
			m.vals = slices.Delete(m.vals, i, i+1)
		}
	case 4:
		if n > 0 {
			v, mv := w.incoming()
			i := w.r.IntN(n)
			w.kinds["index"]++
			w.must(live.(starlark.HasSetIndex).SetIndex(i, v))
			m.vals[i] = mv
		}
	case 5:
		if n > 2 {
			w.kinds["clear"]++
			_, err := w.method(live, "clear")
			w.must(err)
			m.vals = nil
		}
	}
}

// refuseStale writes through handles whose values were replaced or removed.
func (w *walker) refuseStale() {
	for _, h := range w.stale {
		var err error
		switch h := h.(type) {
		case starlark.HasSetKey:
			err = h.SetKey(starlark.String("x"), starlark.None)
		case *state.List:
			err = h.Extend([]starlark.Value{starlark.None})
		}
		if err == nil {
			w.kinds["revived"]++ // stored again later as an alias: then it lives
			continue
		}
		w.kinds["stale"]++
	}
}

// TestModel drives random transactions and a deep-copied plain model side by side.
func TestModel(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(300) {
		modelRun(t, seed, kinds)
	}
	for _, k := range []string{"alias", "append", "clear", "index", "insert", "move", "pop", "remove", "set", "stale"} {
		if kinds[k] < 50 {
			t.Errorf("only %d operations of kind %s: the walk does not reach it", kinds[k], k)
		}
	}
	t.Log(kinds)
}

func modelRun(t *testing.T, seed uint64, kinds map[string]int) {
	t.Helper()
	model := &object{vals: map[string]any{}}
	root := state.NewObject(nil, nil)
	r := rand.New(rand.NewPCG(seed, 7))
	for round := range 8 {
		tx := state.Begin(root)
		before := jsonOf(model)
		w := &walker{t: t, r: r, root: tx.Root(), model: clone(model).(*object), kinds: kinds}
		for range r.IntN(25) {
			w.step()
		}
		if got, want := tx.Root().String(), jsonOf(w.model); got != want {
			t.Fatalf("seed %d round %d: live state\n%s\nwant the model's\n%s", seed, round, got, want)
		}
		after := tx.Commit()
		checkCommit(t, root, after, before, jsonOf(w.model))
		w.refuseStale()
		if r.IntN(4) > 0 { // else roll back
			root, model = after, w.model
		}
		if t.Failed() {
			t.Fatalf("seed %d round %d", seed, round)
		}
	}
}

// checkCommit compares a commit with the two plain texts.
func checkCommit(t *testing.T, base, after *state.Object, before, want string) {
	t.Helper()
	if got := string(state.AppendJSON(nil, base)); got != before {
		t.Errorf("the base changed:\n%s\nwant\n%s", got, before)
	}
	if got := string(state.AppendJSON(nil, after)); got != want {
		t.Errorf("committed\n%s\nwant\n%s", got, want)
	}
	x, y := decode(t, before), decode(t, want)
	delta := state.Diff(base, after)
	if oracle := diff.Diff(x, y); fmt.Sprintf("%s", delta) != fmt.Sprintf("%s", oracle) {
		t.Errorf("delta\n%s\nwant that of the plain values\n%s", delta, oracle)
	}
	applied, err := delta.Apply(x)
	if err != nil || diff.Hash(applied) != diff.Hash(y) {
		t.Errorf("apply: %v; before and delta do not give after", err)
	}
	fresh, err := state.DecodeObject([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if state.Digest(after) != state.Digest(fresh) {
		t.Errorf("the digest depends on how the value came about: %s", want)
	}
	if (state.Digest(base) == state.Digest(after)) != (len(delta) == 0) {
		t.Errorf("digests and delta %s disagree about change", delta)
	}
}

func decode(t *testing.T, text string) diff.Value {
	t.Helper()
	v, err := diff.Decode([]byte(text), diff.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
