package generate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"understudy/gpu"
	"understudy/gpu/generate"
	"understudy/gpu/reference"
)

func TestHeldPrefixSurvivesPressure(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{Batch: 1, Context: 64, Memory: 5 * pageBytes(t)})
	held := request(1, 17, 16)
	held.Hold = true
	kept := run(t, e, held)
	for seed := range uint64(6) {
		run(t, e, request(10+seed, 20, 10)) // each needs the room of the last
	}
	next := request(1, 17, 1)
	next.Prompt = append(next.Prompt, kept.IDs()...)
	if got := run(t, e, next); got.Shared != 32 {
		t.Errorf("%d tokens of the held text are left, want 32", got.Shared)
	}
	_, err := e.Generate(t.Context(), request(30, 40, 24))
	if !errors.Is(err, generate.ErrBudget) || !strings.Contains(err.Error(), "held prefixes") {
		t.Errorf("no room beside what is held: %v", err)
	}
	kept.Release()
	run(t, e, request(30, 40, 24))
	noLeaks(t, e)
}

// New weights make old prefixes wrong: Flush forgets them, held ones too.
func TestFlush(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{Batch: 2})
	r := request(3, 40, 8)
	r.Hold = true
	kept := run(t, e, r)
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	again := run(t, e, request(3, 40, 8))
	if again.Shared != 0 || !reflect.DeepEqual(again.Tokens, kept.Tokens) {
		t.Errorf("%d tokens were shared after a flush", again.Shared)
	}
	s, err := e.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	kept.Release()
	noLeaks(t, e)
	if s.Free == s.Pages {
		t.Errorf("held nothing: %d of %d free", s.Free, s.Pages)
	}
	r.Max, r.Hold = 100, false
	busy := false
	for try := 0; !busy; try++ { // until a request is met while it runs
		if try == 200 {
			t.Fatal("flushed 200 times while a request ran")
		}
		ended := make(chan error, 1)
		go func() {
			_, err := e.Generate(t.Context(), r)
			ended <- err
		}()
		for running := true; running; {
			select {
			case err := <-ended:
				if running = false; err != nil {
					t.Fatal(err)
				}
			default:
				busy = errors.Is(e.Flush(), generate.ErrBusy) || busy
			}
		}
	}
}

func pageBytes(tb testing.TB) int64 {
	tb.Helper()
	return tinyModel(tb).PageBytes()
}

// Requests that are stopped, cut, cancelled, held and forked at random, in an arena
// that is too small for all of them, leave nothing, and those that end are what
// they are alone.
func TestNoLeaksAtRandom(t *testing.T) {
	t.Parallel()
	alone := newEngine(t, generate.Config{Batch: 1})
	kinds := make([]generate.Request, 40)
	want := make([]*generate.Result, len(kinds))
	for i := range kinds {
		rng := rand.New(rand.NewPCG(uint64(i), 4))
		kinds[i] = request(uint64(rng.IntN(4)), 1+rng.IntN(70), 1+rng.IntN(25)) // prompts of a seed are prefixes of each other
		kinds[i].Sampling.Seed = rng.Uint64()
		for range 20 * (i % 2) {
			kinds[i].StopTokens = append(kinds[i].StopTokens, int32(rng.IntN(vocab)))
		}
		if i >= 20 { // conversations that go on from another's text
			kinds[i].Prompt = slices.Concat(kinds[i-20].Prompt, want[i-20].IDs(), kinds[i].Prompt[:min(4, len(kinds[i].Prompt))])
		}
		want[i] = run(t, alone, kinds[i])
		if err := alone.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	e := newEngine(t, generate.Config{Batch: 6, Prefill: 24, Memory: 24 * pageBytes(t), Workers: 2})
	var group errgroup.Group
	group.SetLimit(16)
	var mu sync.Mutex
	counts := map[string]int{}
	for i := range rounds(1000) {
		group.Go(func() error {
			what, err := oneAtRandom(t.Context(), e, rand.New(rand.NewPCG(uint64(i), 5)), kinds, want)
			mu.Lock()
			counts[what]++
			mu.Unlock()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if counts["cancelled"] < rounds(20) || counts["length"] < rounds(20) || counts["stop"] == 0 {
		t.Errorf("the test tries too little: %v", counts)
	}
	noLeaks(t, e)
}

func oneAtRandom(ctx context.Context, e *generate.Engine, rng *rand.Rand, kinds []generate.Request, want []*generate.Result) (string, error) {
	kind := rng.IntN(len(kinds))
	r := kinds[kind]
	r.Hold = rng.IntN(8) == 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if rng.IntN(4) == 0 {
		left := rng.IntN(6)
		r.Emit = func(generate.Delta) error {
			if left--; left < 0 {
				cancel()
			}
			return nil
		}
	}
	result, err := e.Generate(ctx, r)
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled", nil
	case errors.Is(err, generate.ErrBudget):
		return "held", nil // what others hold leaves no room
	case err != nil:
		return "failed", err
	}
	result.Release()
	if !reflect.DeepEqual(result.Tokens, want[kind].Tokens) {
		return "wrong", fmt.Errorf("request %d: %v, alone %v", kind, result.IDs(), want[kind].IDs())
	}
	return string(result.Finish), nil
}

// held is a device whose steps wait: each Embed says that it began, and goes on
// when it may.
type held struct {
	gpu.Device
	began chan struct{}
	may   chan struct{}
}

func (d held) Embed(y, table, tokens gpu.Buffer) {
	select {
	case d.began <- struct{}{}:
	default:
	}
	<-d.may
	d.Device.Embed(y, table, tokens)
}

func TestClose(t *testing.T) {
	t.Parallel()
	dev := held{reference.New(reference.Single), make(chan struct{}, 1), make(chan struct{})}
	e, err := generate.New(modelOn(t, dev), generate.Config{Batch: 1, Tokens: tokens()})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		group.Go(func() { _, errs[i] = e.Generate(context.Background(), request(uint64(i), 5, 150)) })
	}
	<-dev.began // one of them is in the middle of a step
	group.Go(e.Close)
	// While a step waits nothing is taken in, so this returns because of Close.
	if _, err := e.Generate(context.Background(), request(1, 5, 5)); !errors.Is(err, generate.ErrClosed) {
		t.Errorf("a request after Close: %v", err)
	}
	close(dev.may)
	group.Wait()
	for _, err := range errs {
		if !errors.Is(err, generate.ErrClosed) {
			t.Errorf("a request of a closed engine: %v", err)
		}
	}
	e.Close()
}
