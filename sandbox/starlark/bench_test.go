package starlark_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// cancellations are calls that cancel every pending order of the shop: 1,000
// orders, 500 users.
func cancellations(b *testing.B, env audit.Environment) []audit.Call {
	b.Helper()
	s, err := env.Open(b.Context(), audit.Start{})
	if err != nil {
		b.Fatal(err)
	}
	text, err := s.(audit.Stater).State(b.Context(), "/orders")
	if err != nil {
		b.Fatal(err)
	}
	var orders map[string]struct{ Status string }
	if err := json.Unmarshal(text, &orders); err != nil {
		b.Fatal(err)
	}
	var calls []audit.Call
	for _, id := range slices.Sorted(maps.Keys(orders)) {
		if orders[id].Status == "pending" {
			args := fmt.Appendf(nil, `{"order_id":%q,"reason":"mistake"}`, id)
			calls = append(calls, audit.Call{Tool: "cancel_order", Arguments: args})
		}
	}
	return calls
}

// BenchmarkCancelOrder is the rehearsal of one write: JSON arguments in, response,
// delta and both digests out. calls/cpu-s is per second of processor time, garbage
// collection included, so that a busy machine does not count; ratio says how many
// calls one deep copy of the state, a native change and a full comparison cost, in
// the same run and measure.
func BenchmarkCancelOrder(b *testing.B) {
	env, s := open(b, "")
	calls := cancellations(b, env)
	naive := copyAndDiff(b, s)
	b.ReportAllocs()
	i := 0
	started := processor(b)
	for b.Loop() {
		obs, err := s.(audit.DryRunner).DryRun(b.Context(), calls[i%len(calls)])
		if err != nil || obs.Status != audit.StatusOK || len(obs.Delta) != 4 {
			b.Fatal(obs.Status, err)
		}
		i++
	}
	each := (processor(b) - started) / time.Duration(i)
	b.ReportMetric(float64(time.Second)/float64(each), "calls/cpu-s")
	b.ReportMetric(float64(naive)/float64(each), "ratio")
}

// processor is the processor time that this process has used.
func processor(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// copyAndDiff is the median processor time of what an engine without persistent state does.
func copyAndDiff(b *testing.B, s audit.Session) time.Duration {
	b.Helper()
	text, err := s.(audit.Stater).State(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	var world any
	if err := json.Unmarshal(text, &world); err != nil {
		b.Fatal(err)
	}
	times := make([]time.Duration, 9)
	for i := range times {
		started := processor(b)
		after := deepCopy(world)
		order := after.(map[string]any)["orders"].(map[string]any)["#W1000001"].(map[string]any)
		order["status"], order["cancel_reason"] = "cancelled", "mistake"
		order["payment_history"] = append(order["payment_history"].([]any), map[string]any{"kind": "refund"})
		if n := differences(world, after); n != 3 {
			b.Fatalf("the naive diff finds %d differences, want 3", n)
		}
		times[i] = processor(b) - started
	}
	slices.Sort(times)
	return times[len(times)/2]
}

func deepCopy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = deepCopy(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = deepCopy(e)
		}
		return c
	}
	return v
}

func differences(a, b any) int {
	x, ok1 := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok1 || !ok2 {
		if l, ok := a.([]any); ok {
			return listDifferences(l, b)
		}
		if a != b {
			return 1
		}
		return 0
	}
	n := 0
	for k, v := range x {
		if w, ok := y[k]; ok {
			n += differences(v, w)
		} else {
			n++
		}
	}
	for k := range y {
		if _, ok := x[k]; !ok {
			n++
		}
	}
	return n
}

func listDifferences(a []any, other any) int {
	b, ok := other.([]any)
	if !ok {
		return 1
	}
	n := max(len(a), len(b)) - min(len(a), len(b))
	for i := range min(len(a), len(b)) {
		if !reflect.DeepEqual(a[i], b[i]) {
			n += differences(a[i], b[i])
		}
	}
	return n
}

// BenchmarkCommit makes calls that stay. It reports the memory that each keeps
// for good, alone and when the state before it is kept as a snapshot too.
func BenchmarkCommit(b *testing.B) {
	env, s := open(b, "")
	calls := cancellations(b, env)
	snap := s.(audit.Snapshotter)
	start, err := snap.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	all := func(each func()) float64 {
		if err := snap.Restore(b.Context(), start); err != nil {
			b.Fatal(err)
		}
		before := heap()
		for _, call := range calls {
			if obs, err := s.Call(b.Context(), call); err != nil || obs.Status != audit.StatusOK {
				b.Fatal(obs.Status, err)
			}
			each()
		}
		return (heap() - before) / float64(len(calls))
	}
	all(func() {}) // the first digests stay with the shared nodes
	kept := all(func() {})
	snapped := all(func() {
		if _, err := snap.Snapshot(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
	i := 0
	for b.Loop() {
		if i%len(calls) == 0 {
			if err := snap.Restore(b.Context(), start); err != nil {
				b.Fatal(err)
			}
		}
		if obs, err := s.Call(b.Context(), calls[i%len(calls)]); err != nil || obs.Status != audit.StatusOK {
			b.Fatal(obs.Status, err)
		}
		i++
	}
	b.ReportMetric(kept, "kept-B/call")
	b.ReportMetric(snapped, "snapshot-B/call")
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkFork is a fork of a session, whatever the size of its state.
func BenchmarkFork(b *testing.B) {
	_, s := open(b, "")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.(audit.Forker).Fork(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSize makes the same call on states of growing size: the cost is the
// call's, not the state's.
func BenchmarkSize(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("orders=%d", n), func(b *testing.B) {
			env, _ := open(b, "")
			s, err := env.Open(b.Context(), audit.Start{State: shopOf(n)})
			if err != nil {
				b.Fatal(err)
			}
			call := audit.Call{Tool: "cancel_order", Arguments: []byte(`{"order_id":"#W0000007","reason":"mistake"}`)}
			if _, err := s.Call(b.Context(), audit.Call{Tool: "none"}); err != nil { // the first digest is of everything
				b.Fatal(err)
			}
			for b.Loop() {
				if obs, err := s.(audit.DryRunner).DryRun(b.Context(), call); err != nil || obs.Status != audit.StatusOK {
					b.Fatal(string(obs.Raw), err)
				}
			}
		})
	}
}

// shopOf is a shop's state with n orders of one user.
func shopOf(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"users":{"u0":{"id":"u0","payment_methods":{"gift_1":{"balance":1.5}}}},"orders":{`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"#W%07d":{"id":"#W%07d","user":"u0","status":"pending","items":[],`, i, i)
		b.WriteString(`"payment_history":[{"kind":"payment","method":"gift_1","amount":12.5}]}`)
	}
	b.WriteString("}}")
	return b.Bytes()
}

// BenchmarkChildCall is BenchmarkCancelOrder through a child process.
func BenchmarkChildCall(b *testing.B) {
	env, err := starlark.NewChildEnvironment(b.Context(), os.DirFS("testdata"), "shop", starlark.ChildOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = env.Close() })
	calls := cancellations(b, env)
	s, err := env.Open(b.Context(), audit.Start{})
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		obs, err := s.(audit.DryRunner).DryRun(b.Context(), calls[i%len(calls)])
		if err != nil || obs.Status != audit.StatusOK {
			b.Fatal(obs.Status, err)
		}
		i++
	}
}
