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
	"testing/synctest"

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
}

// A request that runs needs its prefixes: who flushes meanwhile is told so.
func TestFlushWhileBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dev := held{reference.New(reference.Single), make(chan struct{}, 1), make(chan struct{})}
		e := engineOn(t, dev, generate.Config{Batch: 1})
		ended, flushed := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := e.Generate(t.Context(), request(3, 40, 8))
			ended <- err
		}()
		<-dev.began // it is in the middle of a step
		go func() { flushed <- e.Flush() }()
		synctest.Wait() // for the step's end, as the flush does
		close(dev.may)
		if err := <-flushed; !errors.Is(err, generate.ErrBusy) {
			t.Errorf("a flush while a request runs: %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		noLeaks(t, e)
	})
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
	p := pressure{e: e, kinds: kinds, want: want, counts: map[string]int{}}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range rounds(1000) {
		group.Go(func() error { return p.one(t.Context(), rand.New(rand.NewPCG(uint64(i), 5))) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	// How many are cancelled before they end is up to the machine.
	if c := p.counts; c["emit"] < rounds(20) || c["length"] < rounds(20) || c["stop"] == 0 {
		t.Errorf("the test tries too little: %v", c)
	}
	noLeaks(t, e)
}

// pressure is many requests to one engine.
type pressure struct {
	e     *generate.Engine
	kinds []generate.Request
	want  []*generate.Result // of each kind, alone

	holding sync.RWMutex // a reader may hold pages, a writer finds none held
	mu      sync.Mutex
	counts  map[string]int // how requests ended
}

var errEmit = errors.New("that is enough")

// one tries a request among others, and once more when nothing is held if what
// they hold leaves it no room.
func (p *pressure) one(ctx context.Context, rng *rand.Rand) error {
	kind, hold, how, left := rng.IntN(len(p.kinds)), rng.IntN(8) == 0, rng.IntN(8), rng.IntN(6)
	try := func(lock sync.Locker) error {
		lock.Lock()
		defer lock.Unlock()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r, left := p.kinds[kind], left
		r.Hold = hold
		if how < 2 {
			r.Emit = func(generate.Delta) error {
				if left--; left < 0 && how == 0 {
					cancel()
				} else if left < 0 {
					return errEmit
				}
				return nil
			}
		}
		result, err := p.e.Generate(ctx, r)
		if err != nil {
			return err
		}
		result.Release()
		if !reflect.DeepEqual(result.Tokens, p.want[kind].Tokens) {
			return fmt.Errorf("request %d: %v, alone %v", kind, result.IDs(), p.want[kind].IDs())
		}
		p.count(string(result.Finish))
		return nil
	}
	err := try(p.holding.RLocker())
	if errors.Is(err, generate.ErrBudget) {
		err = try(&p.holding)
	}
	switch {
	case errors.Is(err, context.Canceled):
		p.count("cancelled")
		return nil
	case errors.Is(err, errEmit):
		p.count("emit")
		return nil
	}
	return err
}

func (p *pressure) count(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[what]++
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
