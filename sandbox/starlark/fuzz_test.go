package starlark_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// FuzzGuard: whatever a tool's author wrote, loading it and calling it end within
// the limits, without a panic, and a call that fails leaves the state as it was.
// The fuzzer's driver bounds the memory.
func FuzzGuard(f *testing.F) {
	for i, a := range append(attacks(), longAttacks()...) {
		if raceEnabled && i%12 != 0 {
			continue // one goroutine, ten times slower: the run without the detector tries them all
		}
		f.Add("    " + strings.Join(strings.Split(a.body, "\n"), "\n    "))
	}
	f.Add("    db[\"n\"] += 1\n    return {\"n\": db[\"n\"], \"id\": new_id(\"x\")}")
	f.Add("    return attempt(lambda: error(\"conflict\", \"no\"))")
	f.Add("    return 1\nx = [i for i in range(10)]\ndef u(db, a):\n    return x[a]\ntool(u, effect=\"read\")")
	limits := starlark.Limits{Steps: 100_000, Wall: 200 * time.Millisecond, Bytes: 4 << 20, Generate: 200_000}
	f.Fuzz(func(t *testing.T, body string) {
		fsys := fstest.MapFS{
			"x/domain.yaml": {Data: []byte("name: x\n")},
			"x/state.star":  {Data: []byte("def state(rng):\n    return {\"n\": 1, \"l\": [1, 2], \"m\": {\"a\": {\"b\": 1}}}\n")},
			"x/domain.star": {Data: []byte("def t(db):\n" + body + "\ntool(t, effect=\"write\")\n")},
		}
		started := processor(t)
		d, err := starlark.Load(fsys, "x", starlark.Options{Limits: limits})
		if err != nil {
			if took := processor(t) - started; took > 10*time.Second {
				t.Fatalf("%q is refused after %v", body, took)
			}
			return
		}
		s, err := starlark.NewEnvironment(d).Open(t.Context(), audit.Start{})
		if err != nil {
			return // the domain cannot make its own state
		}
		defer s.Close()
		obs, err := s.Call(t.Context(), audit.Call{Tool: "t"})
		if took := processor(t) - started; took > 10*time.Second {
			t.Fatalf("%q took %v", body, took)
		}
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if obs.Status != audit.StatusOK && (obs.Before != obs.After || len(obs.Delta) != 0) {
			t.Fatalf("%q is %s and changed the state by %s", body, obs.Status, obs.Delta)
		}
	})
}
