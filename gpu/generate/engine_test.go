package generate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"understudy/gpu"
	"understudy/gpu/generate"
	"understudy/gpu/grammar"
	"understudy/gpu/host"
	"understudy/gpu/reference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	r.Max, r.Hold = 100, false
	busy := false
	r.Emit = func(generate.Delta) error {
		busy = busy || errors.Is(e.Flush(), generate.ErrBusy)
		return nil
	}
	run(t, e, r)
	if !busy || s.Free == s.Pages {
		t.Errorf("flushed while a request ran (busy %v), or held nothing (%d of %d free)", busy, s.Free, s.Pages)
	}
}

// A text in a form may also end with a stop token of the request's own.
func TestStopTokenUnderGrammar(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{})
	v, err := grammar.NewVocabulary(tokens())
	if err != nil {
		t.Fatal(err)
	}
	g, err := grammar.New(v, grammar.Tools(grammar.Calls{Before: "<tool_call>\n", After: "\n</tool_call>", Tools: []grammar.Call{{Name: "get"}}}))
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for seed := range uint64(40) {
		r := request(seed, 5, 100)
		r.Grammar, r.StopTokens = g, []int32{298}
		if out := run(t, e, r); out.Tokens[len(out.Tokens)-1].ID == 298 && out.Finish == generate.FinishStop {
			ended++
		}
	}
	if ended == 0 {
		t.Error("free text around calls never ended with the stop token")
	}
}

func pageBytes(tb testing.TB) int64 {
	tb.Helper()
	return tinyModel(tb).PageBytes()
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
		{func(r *generate.Request) { r.Prompt = nil }, nil, "prompt is empty", "no prompt"},
		{func(r *generate.Request) { r.Prompt = []int32{5, 300} }, nil, "token 1 is 300", "no such token"},
		{func(r *generate.Request) { r.Max = 0 }, nil, "max tokens is 0", "nothing to do"},
		{func(r *generate.Request) { r.Sampling.Temperature = math.NaN() }, nil, "temperature is NaN", "no number"},
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

func TestClose(t *testing.T) {
	t.Parallel()
	e, err := generate.New(tinyModel(t), generate.Config{Batch: 1, Tokens: tokens()})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	errs := make([]error, 3)
	began := make(chan struct{})
	var once sync.Once
	for i := range errs {
		group.Go(func() {
			r := request(uint64(i), 5, 150)
			r.Emit = func(generate.Delta) error { once.Do(func() { close(began) }); return nil }
			_, errs[i] = e.Generate(context.Background(), r)
		})
	}
	<-began
	e.Close()
	group.Wait()
	for _, err := range errs {
		if !errors.Is(err, generate.ErrClosed) {
			t.Errorf("a request of a closed engine: %v", err)
		}
	}
	if _, err := e.Generate(context.Background(), request(1, 5, 5)); !errors.Is(err, generate.ErrClosed) {
		t.Errorf("a request after Close: %v", err)
	}
	e.Close()
}

// Weights that give NaN fail the request, not the engine.
func TestLogitsThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	m := tinyModel(t)
	embed, _ := m.Params.Find("model.embed_tokens.weight")
	row := make([]float32, 16)
	for i := range row {
		row[i] = float32(math.NaN())
	}
	m.Device().Upload(embed.Slice(7*16, 8*16), row)
	e, err := generate.New(m, generate.Config{Batch: 4, Tokens: tokens()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := request(1, 5, 3)
	if _, err := e.Generate(t.Context(), r); !errors.Is(err, generate.ErrNotFinite) {
		t.Errorf("got %v: token 7's logit is NaN for every prompt of a tied model", err)
	}
	noLeaks(t, e)
}

// Log-probabilities are what they say.
func TestLogProbs(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{})
	r := request(5, 9, 1)
	r.TopLogProbs = 20
	counts, draws := map[int32]int{}, rounds(3000)
	chance := map[int32]float64{}
	var group errgroup.Group
	var mu sync.Mutex
	group.SetLimit(16)
	for i := range draws {
		group.Go(func() error {
			one := r
			one.Sampling = generate.Sampling{Temperature: 0.7, TopK: 12, Seed: uint64(i)}
			out, err := e.Generate(t.Context(), one)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			token := out.Tokens[0]
			counts[token.ID]++
			chance[token.ID] = math.Exp(float64(token.Drawn))
			if token.Drawn < token.Tempered {
				return fmt.Errorf("token %d: drawn at %v, below %v of the whole distribution", token.ID, token.Drawn, token.Tempered)
			}
			if !slices.ContainsFunc(token.Top, func(l generate.Likely) bool { return l.ID == token.ID && l.LogProb == token.LogProb }) {
				return fmt.Errorf("token %d at %v is not among the most likely %v", token.ID, token.LogProb, token.Top)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	sum, statistic := 0.0, 0.0
	for id, p := range chance {
		sum += p
		expected := p * float64(draws)
		statistic += (float64(counts[id]) - expected) * (float64(counts[id]) - expected) / expected
	}
	if math.Abs(sum-1) > 1e-3 || len(chance) != 12 {
		t.Errorf("%d tokens were drawn with a total probability of %v, want 12 of top-k and 1", len(chance), sum)
	}
	if statistic > 31.3 { // chi-square with 11 degrees of freedom, p = 0.001
		t.Errorf("chi-square %v: tokens are not drawn as often as they say", statistic)
	}
	at1 := run(t, e, request(5, 9, 4))
	for _, token := range at1.Tokens {
		if token.LogProb != token.Tempered || math.Abs(float64(token.Drawn-token.LogProb)) > 1e-5 {
			t.Errorf("at temperature 1 without truncation all three are one: %+v", token)
		}
	}
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{})
	base := request(6, 11, 8)
	greedy := base
	greedy.Sampling = generate.Sampling{}
	want := run(t, e, greedy).IDs()
	for name, s := range map[string]generate.Sampling{
		"top-k of one":     {Temperature: 1, TopK: 1, Seed: 4},
		"top-p of nothing": {Temperature: 1, TopP: 1e-9, Seed: 4},
		"min-p of all":     {Temperature: 1, MinP: 1, Seed: 4},
		"cold":             {Temperature: 1e-3, Seed: 4},
	} {
		r := base
		r.Sampling = s
		if got := run(t, e, r).IDs(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want the most likely %v", name, got, want)
		}
	}
	open := base
	open.Sampling = generate.Sampling{Temperature: 1, TopP: 1, TopK: vocab, Seed: 4}
	all := base
	all.Sampling = generate.Sampling{Temperature: 1, Seed: 4}
	if !slices.Equal(run(t, e, open).IDs(), run(t, e, all).IDs()) {
		t.Error("truncation that keeps everything changes the text")
	}
}

func TestGrammar(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{Workers: 2})
	v, err := grammar.NewVocabulary(tokens())
	if err != nil {
		t.Fatal(err)
	}
	g, err := grammar.New(v, grammar.Schema(json.RawMessage(`{"type":"object","properties":{"the":{"type":"string","maxLength":9},"n":{"type":"integer"}},"required":["the","n"],"additionalProperties":false}`)))
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for i := range 64 {
		group.Go(func() error {
			r := request(uint64(i), 6, 22+i%20)
			r.Grammar, r.IgnoreEnd = g, i%2 == 0
			out, err := e.Generate(t.Context(), r)
			if err != nil {
				return err
			}
			var value struct {
				The *string
				N   *int
			}
			if err := json.Unmarshal([]byte(out.Text), &value); err != nil || value.The == nil || value.N == nil || out.Finish != generate.FinishStop {
				return fmt.Errorf("%q (%s): %w", out.Text, out.Finish, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	noLeaks(t, e)
}

// forced is a grammar that writes text, and so a request whose text is known.
func forced(tb testing.TB, text string) *grammar.Grammar {
	tb.Helper()
	v, err := grammar.NewVocabulary(tokens())
	if err != nil {
		tb.Fatal(err)
	}
	g, err := grammar.New(v, grammar.Literal(text))
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func TestStopStringsAndStreaming(t *testing.T) {
	t.Parallel()
	e := newEngine(t, generate.Config{})
	tests := []struct {
		written string
		stop    []string
		want    string
		reason  string
	}{
		{"the cat sat", nil, "the cat sat", "no stop"},
		{"the cat STOP!", []string{"STOP"}, "the cat ", "a stop that may be one token or several"},
		{"the SSTOP cat", []string{"STOP"}, "the S", "a stop after its own beginning"},
		{"the STO cat", []string{"STOP", "zzz"}, "the STO cat", "a stop that began only"},
		{"the ST", []string{"STOP"}, "the ST", "held back until the end"},
		{"a€é€b", []string{"€b"}, "a€é", "characters of several tokens"},
		{"the cat", []string{"cat", "the c"}, "", "the earliest stop, not the first in the list"},
	}
	for _, test := range tests {
		for seed := range uint64(5) {
			r := request(seed, 4, 40)
			r.Grammar, r.Stop = forced(t, test.written), test.stop
			var streamed strings.Builder
			count := 0
			r.Emit = func(d generate.Delta) error {
				if !utf8.ValidString(d.Text) {
					return fmt.Errorf("half a character: %q", d.Text)
				}
				if d.Token != nil {
					count++
				}
				streamed.WriteString(d.Text)
				return nil
			}
			out := run(t, e, r)
			if out.Text != test.want || streamed.String() != out.Text || count != len(out.Tokens) || out.Finish != generate.FinishStop {
				t.Errorf("%s: text %q, streamed %q, want %q (%d of %d tokens, %s)", test.reason, out.Text, streamed.String(), test.want, count, len(out.Tokens), out.Finish)
			}
		}
	}
	r := request(1, 4, 40)
	fault := errors.New("the client is gone")
	r.Emit = func(generate.Delta) error { return fault }
	if _, err := e.Generate(t.Context(), r); !errors.Is(err, fault) {
		t.Errorf("got %v, want Emit's error", err)
	}
	noLeaks(t, e)
}
