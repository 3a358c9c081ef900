package generate_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"understudy/audit/leaktest"
	"understudy/gpu"
	"understudy/gpu/generate"
	"understudy/gpu/grammar"
	"understudy/gpu/host"
	"understudy/gpu/reference"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	vocab    = 300
	endToken = 299
)

// tokens are all bytes, some longer pieces and, last, special tokens.
func tokens() [][]byte {
	out := make([][]byte, vocab)
	for b := range 256 {
		out[b] = []byte{byte(b)}
	}
	for i, piece := range []string{"the", " cat", " sat", "on", " mat", "\n", "STOP", "ST", "OP!", `{"`, `":`, "}", "é", "\xe2\x82", "\xac", "true"} {
		out[256+i] = []byte(piece)
	}
	return out
}

// tinyModel is random and so rough that its texts differ from prompt to prompt.
func tinyModel(tb testing.TB) *gpu.Model {
	tb.Helper()
	return modelOn(tb, reference.New(reference.Single))
}

func modelOn(tb testing.TB, dev gpu.Device) *gpu.Model {
	tb.Helper()
	m, err := gpu.NewRandom(dev, gpu.Config{
		Type: gpu.Qwen3, Layers: 2, Width: 16, Hidden: 24, Vocab: vocab, Context: 160,
		Heads: gpu.Heads{H: 4, G: 2, D: 4}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1, EOS: []int32{endToken},
	}, 1)
	if err != nil {
		tb.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 3))
	for _, t := range m.Params.Tensors {
		values := make([]float32, t.Len)
		for i := range values {
			values[i] = float32(rng.NormFloat64() * 0.4)
		}
		m.Device().Upload(t.Buffer, values)
	}
	m.Changed()
	return m
}

func newEngine(tb testing.TB, c generate.Config) *generate.Engine {
	tb.Helper()
	return engineOn(tb, reference.New(reference.Single), c)
}

func engineOn(tb testing.TB, dev gpu.Device, c generate.Config) *generate.Engine {
	tb.Helper()
	c.Tokens = tokens()
	e, err := generate.New(modelOn(tb, dev), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(e.Close)
	return e
}

// rounds is how often a test tries under the race detector, which slows the
// reference device tenfold.
func rounds(n int) int {
	if raceEnabled {
		return n / 5
	}
	return n
}

func prompt(seed uint64, n int) []int32 {
	rng := rand.New(rand.NewPCG(seed, 9))
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(rng.IntN(256))
	}
	return out
}

func request(seed uint64, n, most int) generate.Request {
	return generate.Request{
		Prompt: prompt(seed, n), Max: most, TopLogProbs: 2, IgnoreEnd: true,
		Sampling: generate.Sampling{Temperature: 1, Seed: seed},
	}
}

func run(tb testing.TB, e *generate.Engine, r generate.Request) *generate.Result {
	tb.Helper()
	out, err := e.Generate(tb.Context(), r)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// noLeaks says that all pages are free once nothing is cached.
func noLeaks(tb testing.TB, e *generate.Engine) {
	tb.Helper()
	if err := e.Flush(); err != nil {
		tb.Fatal(err)
	}
	s, err := e.Stats()
	if err != nil {
		tb.Fatal(err)
	}
	if s.Free != s.Pages || s.Running != 0 || s.Queued != 0 {
		tb.Errorf("after all requests: %d of %d pages are free, %d run, %d are queued", s.Free, s.Pages, s.Running, s.Queued)
	}
}

// Same seed, same text and the same bits of log-probability: alone, and in any
// batch, order, chunking and sharing.
func TestSameSeedSameText(t *testing.T) {
	t.Parallel()
	t.Run("reference", func(t *testing.T) {
		t.Parallel()
		sameSeedSameText(t, func() gpu.Device { return reference.New(reference.Single) })
	})
	for _, kernels := range host.Kernels() {
		t.Run("host "+kernels, func(t *testing.T) {
			t.Parallel()
			sameSeedSameText(t, func() gpu.Device {
				d, err := host.New(host.Options{Kernels: kernels, Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(d.Close)
				return d
			})
		})
	}
}

func sameSeedSameText(t *testing.T, device func() gpu.Device) {
	t.Helper()
	requests := make([]generate.Request, 12)
	for i := range requests {
		requests[i] = request(uint64(i%5), 20+7*(i%5), 12) // several share their prompts
		requests[i].Sampling.Seed = uint64(100 + i)
		if i%3 == 1 {
			requests[i].Sampling.TopP, requests[i].Sampling.TopK, requests[i].Sampling.Temperature = 0.9, 40, 1.3
		}
	}
	alone := make([]*generate.Result, len(requests))
	for i, r := range requests {
		alone[i] = run(t, engineOn(t, device(), generate.Config{Batch: 1}), r)
	}
	for _, c := range []generate.Config{{Batch: 12, Prefill: 64}, {Batch: 5, Prefill: 3}, {Batch: 3, Prefill: 1000, Workers: 3}} {
		e := engineOn(t, device(), c)
		for order := range 2 {
			got := make([]*generate.Result, len(requests))
			var group errgroup.Group
			for _, i := range rand.New(rand.NewPCG(uint64(order), 1)).Perm(len(requests)) {
				group.Go(func() (err error) {
					got[i], err = e.Generate(t.Context(), requests[i])
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if !reflect.DeepEqual(got[i].Tokens, alone[i].Tokens) || got[i].Text != alone[i].Text {
					t.Errorf("batch %d, prefill %d: request %d is %v, alone %v", c.Batch, c.Prefill, i, got[i].IDs(), alone[i].IDs())
				}
			}
		}
		noLeaks(t, e)
	}
	if reflect.DeepEqual(alone[0].IDs(), alone[5].IDs()) {
		t.Error("one prompt under two seeds gave one text: the test shows nothing")
	}
}

func TestRolloutsShareTheirPrompt(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{Batch: 8})
	r := request(7, 61, 10)
	results, err := e.Rollouts(t.Context(), r, 8)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(60 + 8*10); s.Rows != want {
		t.Errorf("%d rows were computed, want %d: the prompt once, and each rollout's own", s.Rows, want)
	}
	for i, got := range results {
		one := r
		one.Sampling.Seed = generate.RolloutSeed(r.Sampling.Seed, i)
		want := run(t, newEngine(t, generate.Config{Batch: 1}), one)
		if !reflect.DeepEqual(got.Tokens, want.Tokens) {
			t.Errorf("rollout %d: shared %v, separate %v", i, got.IDs(), want.IDs())
		}
	}
	noLeaks(t, e)
}

// A conversation goes on where it was, at any place within a page.
func TestContinuation(t *testing.T) {
	t.Parallel()
	for most := 1; most < 20; most += 3 {
		e := newEngine(t, generate.Config{Batch: 2})
		first := request(3, 21, most)
		first.Hold = true
		begun := run(t, e, first)
		turn := request(4, 5, 9)
		turn.Prompt = slices.Concat(first.Prompt, begun.IDs(), turn.Prompt)
		got := run(t, e, turn)
		if want := 21 + most - 1; got.Shared != want {
			t.Errorf("%d tokens of the conversation were shared, want all %d that were computed", got.Shared, want)
		}
		again := turn
		again.Sampling.Seed++
		run(t, e, again) // a second branch from the same place
		if third := run(t, e, turn); !reflect.DeepEqual(third.Tokens, got.Tokens) {
			t.Error("a branch changed the text of another")
		}
		if fresh := run(t, newEngine(t, generate.Config{Batch: 1}), turn); !reflect.DeepEqual(fresh.Tokens, got.Tokens) {
			t.Errorf("continued %v, from the start %v", got.IDs(), fresh.IDs())
		}
		begun.Release()
		begun.Release()
		noLeaks(t, e)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{Batch: 2, Context: 100, Memory: 4 * pageBytes(t)})
	schema, err := grammar.NewVocabulary(tokens())
	if err != nil {
		t.Fatal(err)
	}
	long, err := grammar.New(schema, grammar.Literal("a text of some length"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		change func(r *generate.Request)
		is     error
		names  string
		reason string
	}{
		{func(r *generate.Request) { r.Max = 60 }, generate.ErrBudget, "5 KV pages", "more pages than there are"},
		{func(r *generate.Request) { r.Max = 95 }, generate.ErrContext, "100 together", "more tokens than the context"},
		{func(r *generate.Request) { r.Max = math.MaxInt }, generate.ErrContext, "100 together", "more than can be counted with the prompt"},
		{func(r *generate.Request) { r.Prompt = nil }, nil, "prompt is empty", "no prompt"},
		{func(r *generate.Request) { r.Prompt = []int32{5, 300} }, nil, "token 1 is 300", "no such token"},
		{func(r *generate.Request) { r.Max = 0 }, nil, "max tokens is 0", "nothing to do"},
		{func(r *generate.Request) { r.Sampling.Temperature = math.NaN() }, nil, "temperature is NaN", "no number"},
		{func(r *generate.Request) { r.Sampling.Temperature = 1e300 }, generate.ErrInvalid, "temperature is 1e+300", "a scale that is 0 in float32"},
		{func(r *generate.Request) { r.Adapter = "none" }, generate.ErrInvalid, `no adapter "none"`, "no such adapter"},
		{func(r *generate.Request) { r.Sampling.TopP = 1.5 }, nil, "top_p is 1.5", "out of range"},
		{func(r *generate.Request) { r.Stop = []string{""} }, nil, "stop string is empty", "a stop that is everywhere"},
		{func(r *generate.Request) { r.Grammar, r.Max = long, 20 }, generate.ErrBudget, "may need 21", "a form that does not fit"},
	}
	for _, test := range tests {
		r := request(1, 10, 5)
		test.change(&r)
		_, err := e.Generate(t.Context(), r)
		if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: %v, want it to say %q", test.reason, err, test.names)
		}
	}
	if _, err := generate.New(tinyModel(t), generate.Config{Memory: 1}); !errors.Is(err, generate.ErrBudget) {
		t.Errorf("an arena without pages: %v", err)
	}
	noLeaks(t, e)
}

// The arena bounds what a model's claim of a long context may cost.
func TestClaimedContext(t *testing.T) {
	t.Parallel()
	dev, err := host.New(host.Options{Threads: 1, Memory: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	m := modelOn(t, dev)
	m.Context = 1 << 24
	e, err := generate.New(m, generate.Config{Tokens: tokens(), Batch: 2, Memory: 8 * m.PageBytes()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run(t, e, request(1, 10, 5))
	if want := 8 * gpu.PageSize; e.Limit() != want {
		t.Errorf("a request may have %d tokens, want %d", e.Limit(), want)
	}
	if _, err := generate.New(m, generate.Config{Batch: 1 << 40}); err == nil || !strings.Contains(err.Error(), "batch 1099511627776") {
		t.Errorf("a batch beyond an int: %v", err)
	}
}
