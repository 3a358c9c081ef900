package generate_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"understudy/gpu/generate"
	"understudy/gpu/grammar"
)

// TestSoak generates 500 requests, or for UNDERSTUDY_SOAK (`make soak-engine`: an hour),
// and compares the heap at a tenth of them and at the end: memory stays flat.
func TestSoak(t *testing.T) {
	requests := int64(rounds(500))
	over := func(tenths, n int64) bool { return n > requests*tenths/10 }
	if text := os.Getenv("UNDERSTUDY_SOAK"); text != "" {
		duration, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("UNDERSTUDY_SOAK: %v", err)
		}
		began := time.Now()
		over = func(tenths, _ int64) bool { return time.Since(began) > duration/10*time.Duration(tenths) }
	}
	e := newEngine(t, generate.Config{Batch: 8, Prefill: 32, Memory: 60 * pageBytes(t), Workers: 2})
	s, began := soak{e: e, forms: forms(t)}, time.Now()
	s.until(t, func(n int64) bool { return over(1, n) })
	early, earlyCount := heap(), s.count.Load()
	s.until(t, func(n int64) bool { return over(10, n) })
	late := heap()
	stats, err := e.Stats()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v: %d requests (%d cancelled), %d tokens, %.0f %% of the prompts shared; heap %.2f MiB after %d requests, %.2f MiB at the end",
		time.Since(began).Round(time.Second), s.count.Load(), s.cancelled.Load(), stats.Generated, 100*float64(stats.Shared)/float64(stats.Prompt),
		float64(early)/(1<<20), earlyCount, float64(late)/(1<<20))
	// What grows by 20 bytes a request would show after an hour.
	if grown := int64(late) - int64(early); grown > 2<<20 {
		t.Errorf("the heap grew by %.2f MiB over %d requests", float64(grown)/(1<<20), s.count.Load()-earlyCount)
	}
	noLeaks(t, e)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // finalisers and pools of the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// forms are grammars that requests are held to.
func forms(tb testing.TB) []*grammar.Grammar {
	tb.Helper()
	v, err := grammar.NewVocabulary(tokens())
	if err != nil {
		tb.Fatal(err)
	}
	var out []*grammar.Grammar
	for _, part := range []grammar.Part{
		grammar.Object(),
		grammar.Schema(json.RawMessage(`{"type":"array","items":{"type":"integer"},"maxItems":4}`)),
		grammar.Tools(grammar.Calls{Before: "<tool_call>\n", After: "\n</tool_call>", Tools: []grammar.Call{{Name: "get"}}}),
	} {
		g, err := grammar.New(v, part)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, g)
	}
	return out
}

// soak is requests of all kinds.
type soak struct {
	e                *generate.Engine
	forms            []*grammar.Grammar
	next             atomic.Int64 // number of a request
	count, cancelled atomic.Int64 // those that ended
}

// until makes requests until one's number is over.
func (s *soak) until(t *testing.T, over func(n int64) bool) {
	t.Helper()
	var group errgroup.Group
	for range 12 {
		group.Go(func() error {
			for n := s.next.Add(1); !over(n); n = s.next.Add(1) {
				if err := s.one(t.Context(), uint64(n)); err != nil {
					return err
				}
				s.count.Add(1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func (s *soak) one(ctx context.Context, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 8))
	r := request(uint64(rng.IntN(50)), 1+rng.IntN(80), 1+rng.IntN(60))
	r.Sampling.Seed, r.IgnoreEnd, r.Hold = seed, rng.IntN(2) == 0, rng.IntN(5) == 0
	switch rng.IntN(6) {
	case 0:
		r.Grammar = s.forms[rng.IntN(len(s.forms))]
	case 1:
		r.Stop = []string{"the", "STOP"}
	case 2:
		r.Sampling.TopP, r.Sampling.TopK, r.Sampling.MinP = 0.9, 20, 0.01
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if rng.IntN(4) == 0 {
		left := rng.IntN(10)
		r.Emit = func(generate.Delta) error {
			if left--; left < 0 {
				cancel()
			}
			return nil
		}
	}
	out, err := s.e.Generate(ctx, r)
	switch {
	case errors.Is(err, context.Canceled):
		s.cancelled.Add(1)
		return nil
	case errors.Is(err, generate.ErrBudget): // the grammar's shortest text, or held prefixes
		return nil
	case err != nil:
		return err
	}
	out.Release()
	return nil
}
