package state_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

// wide is an object of n keys a000000, a000001, ...
func wide(n int) *state.Object {
	keys, vals := make([]string, n), make([]starlark.Value, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("a%06d", i)
		vals[i] = state.NewObject([]string{"n"}, []starlark.Value{starlark.MakeInt(i)})
	}
	return state.NewObject(keys, vals)
}

// TestWide grows and shrinks an object through every form and compares order,
// digest and delta with an object built at once.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	root := state.NewObject(nil, nil)
	var keys []string
	for round := range 400 {
		tx := state.Begin(root)
		before := slices.Clone(keys)
		grow := round%200 < 120
		for range 1 + r.IntN(8) {
			k := fmt.Sprintf("k%d", r.IntN(500))
			i := slices.Index(keys, k)
			switch {
			case grow && i < 0:
				if err := tx.Root().SetKey(starlark.String(k), starlark.MakeInt(round)); err != nil {
					t.Fatal(err)
				}
				keys = append(keys, k)
			case !grow && len(keys) > 0:
				k = keys[r.IntN(len(keys))]
				pop, _ := tx.Root().Attr("pop")
				if _, err := starlark.Call(&starlark.Thread{}, pop, starlark.Tuple{starlark.String(k)}, nil); err != nil {
					t.Fatal(err)
				}
				keys = slices.DeleteFunc(keys, func(have string) bool { return have == k })
			}
		}
		after := tx.Commit()
		checkCommit(t, root, after, listing(root, before), listing(after, keys))
		if t.Failed() {
			t.Fatalf("round %d, %d keys", round, len(keys))
		}
		root = after
	}
}

// listing writes an object in the given order of keys, so that a wrong order of
// the object itself shows.
func listing(o *state.Object, keys []string) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = fmt.Sprintf("%q:%s", k, state.AppendJSON(nil, o.Get(k)))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestForksInParallel extends one shared object from many goroutines: each sees
// its own keys only. Run it with -race.
func TestForksInParallel(t *testing.T) {
	base := wide(100)
	want := state.Digest(base)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			root := base
			for i := range 50 {
				tx := state.Begin(root)
				_ = tx.Root().SetKey(starlark.String(fmt.Sprintf("g%d-%d", g, i)), starlark.MakeInt(i))
				root = tx.Commit()
				_ = state.Digest(root)
			}
			n := 100
			root.Each(func(k string, _ starlark.Value) bool {
				if strings.HasPrefix(k, "g") {
					if k != fmt.Sprintf("g%d-%d", g, n-100) {
						t.Errorf("fork %d: got key %s at %d", g, k, n)
					}
					n++
				}
				return true
			})
			if n != 150 || root.Len() != 150 {
				t.Errorf("fork %d: %d own keys of %d; want 50 of 150", g, n-100, root.Len())
			}
		})
	}
	wg.Wait()
	fresh := wide(100)
	if state.Digest(fresh) != want || base.Len() != 100 {
		t.Error("the shared base changed")
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct{ text, want, reason string }{
		{`{"a":1,"a":2}`, "duplicate key", "which one counts is a guess"},
		{`{"a":NaN}`, "not a JSON value", "NaN is not JSON"},
		{`[1,]`, "not a JSON value", "a trailing comma"},
		{`{"a":01}`, "malformed number", "a leading zero"},
		{`1e999`, "out of range", "no double holds it"},
		{strings.Repeat("9", 2000), "integer of more than", "quadratic to read"},
		{strings.Repeat("[", 201) + strings.Repeat("]", 201), "more than 200 levels", "one level too deep"},
		{"\"\xff\"", "UTF-8", "not text"},
		{`{"a":1} x`, "text after", "two values"},
		{`{"a"`, "want :", "cut off"},
		{`"a` + "\n" + `"`, "control character", "must be escaped"},
		{``, "ends", "nothing at all"},
	}
	for _, tt := range tests {
		if _, err := state.Decode([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Decode(%.40q): got %v, want an error with %q: %s", tt.text, err, tt.want, tt.reason)
		}
	}
	if _, err := state.Decode([]byte(strings.Repeat("[", 200) + strings.Repeat("]", 200))); err != nil {
		t.Errorf("200 levels: %v; that is the limit, not beyond it", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,-0.0,1e16,"\ud83d\ude00\n"],"b":{}}`, `"\u00e9"`, `[null,true,false]`, `123456789012345678901`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := state.Decode(data)
		if err != nil {
			return
		}
		text := state.AppendJSON(nil, v)
		again, err := state.Decode(text)
		if err != nil {
			t.Fatalf("own output %s: %v", text, err)
		}
		if string(state.AppendJSON(nil, again)) != string(text) || state.Digest(again) != state.Digest(v) {
			t.Fatalf("%s does not survive: %s", data, text)
		}
		if len(state.Diff(v, again)) != 0 {
			t.Fatalf("%s differs from itself", text)
		}
	})
}

// BenchmarkInsert is one new key in a wide object: set, commit, delta and digest.
func BenchmarkInsert(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			base := wide(n)
			state.Digest(base)
			b.ReportAllocs()
			for b.Loop() {
				tx := state.Begin(base)
				_ = tx.Root().SetKey(starlark.String("new"), starlark.True)
				after := tx.Commit()
				if len(state.Diff(base, after)) != 1 || state.Digest(after).IsZero() {
					b.Fatal("want one operation")
				}
			}
		})
	}
}
