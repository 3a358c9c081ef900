package gpu_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/generate"
	"understudy/gpu/reference"
	sampling "understudy/gpu/sample"
)

// A text has the same tokens and log-probabilities whether its tokens are drawn on the device or, because more is
// asked of its logits, on the host; both kinds of requests run side by side.
func TestDrawnOnTheDevice(t *testing.T) {
	m := newModel(t, emulated(t, cuda.Options{}), tiny(gpu.Qwen3, true))
	engine, err := generate.New(m, generate.Config{Batch: 6, Prefill: 16, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	ways := []generate.Sampling{
		{},
		{Temperature: 1},
		{Temperature: 0.7},
		{Temperature: 1.3, TopK: 5},
		{Temperature: 1, TopP: 0.8},
		{Temperature: 2, TopP: 0.95, TopK: 20, MinP: 0.1},
	}
	results := make([]*generate.Result, 2*len(ways))
	var group errgroup.Group
	for i := range results {
		r := generate.Request{Prompt: []int32{int32(5 + i/2), 9, 4, 1, 1, 8}, Max: 12, IgnoreEnd: true, Sampling: ways[i/2], TopLogProbs: i % 2}
		r.Sampling.Seed = uint64(i / 2)
		group.Go(func() (err error) {
			results[i], err = engine.Generate(t.Context(), r)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, how := range ways {
		drawn, other := results[2*i].Tokens, results[2*i+1].Tokens
		for j := range other {
			if len(other[j].Top) != 1 {
				t.Fatalf("%+v: token %d comes with %d alternatives, want 1", how, j, len(other[j].Top))
			}
			other[j].Top = nil
		}
		if fmt.Sprint(drawn) != fmt.Sprint(other) {
			t.Errorf("%+v: on the device %v, on the host %v", how, drawn, other)
		}
	}
}

// Logits that are no numbers end the request where the device draws, too.
func TestDrawnFromNoNumbers(t *testing.T) {
	m := newModel(t, emulated(t, cuda.Options{}), tiny(gpu.Qwen3, true))
	embed, _ := m.Params.Find("model.embed_tokens.weight")
	m.Device().Upload(embed.Slice(7*m.Width, 7*m.Width+1), []float32{float32(math.NaN())})
	m.Changed()
	engine, err := generate.New(m, generate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	_, err = engine.Generate(t.Context(), generate.Request{Prompt: []int32{1, 2}, Max: 3})
	if !errors.Is(err, generate.ErrNotFinite) || !strings.HasPrefix(err.Error(), "at token 0: ") {
		t.Errorf("got %v, want %v at token 0", err, generate.ErrNotFinite)
	}
}

// A step gives the tokens of its first wanted rows and the logits of the others.
func TestStepDraws(t *testing.T) {
	m := newModel(t, emulated(t, cuda.Options{}), tiny(gpu.Qwen3, true))
	tokens := randomTokens(rand.New(rand.NewPCG(6, 6)), 9, m.Vocab)
	var s gpu.Step
	rowsOf(&s, tokens, 0, 9, []int32{0})
	s.Wanted, s.Scale = []int32{8, 2, 5}, []float32{1, 2, 0.5}
	all := step(t, newRunner(t, m), &s)
	s.Draws = []gpu.Draw{{}, {Random: 1 << 62, Tempered: true, TopK: 30}}
	got := step(t, newRunner(t, m), &s)
	var space sampling.Space
	for i, d := range s.Draws {
		if want := space.Draw(all.Row(i), s.Scale[i], all.LSE[i], d, nil); got.Drawn[i] != want {
			t.Errorf("drew %+v, want %+v", got.Drawn[i], want)
		}
	}
	if len(got.Drawn) != 2 || !slices.Equal(got.Values, all.Row(2)) || !slices.Equal(got.LSE, all.LSE[2:]) {
		t.Errorf("%d rows were drawn, and there are %d logits and %d sums", len(got.Drawn), len(got.Values), len(got.LSE))
	}

	s.Draws = make([]gpu.Draw, 4)
	if err := newRunner(t, m).Step(&s, &gpu.Logits{}); err == nil || !strings.Contains(err.Error(), "4 draws for 3 wanted rows") {
		t.Errorf("more draws than rows: %v", err)
	}
	s.Draws = s.Draws[:1]
	m = newModel(t, reference.New(reference.Single), tiny(gpu.Qwen3, true))
	if err := newRunner(t, m).Step(&s, &gpu.Logits{}); err == nil || !strings.Contains(err.Error(), "draws no tokens") {
		t.Errorf("draws on a device that cannot: %v", err)
	}
}
