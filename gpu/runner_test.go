package gpu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/reference"
)

// tiny is a shape whose every dimension is another number.
func tiny(kind string, tied bool) gpu.Config {
	return gpu.Config{
		Type: kind, Layers: 2, Width: 12, Hidden: 20, Vocab: 37, Context: 64,
		Heads: gpu.Heads{H: 4, G: 2, D: 6}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: tied, BOS: -1, EOS: []int32{2},
	}
}

func newModel(tb testing.TB, dev gpu.Device, c gpu.Config) *gpu.Model {
	tb.Helper()
	m, err := gpu.NewRandom(dev, c, 1)
	if err != nil {
		tb.Fatal(err)
	}
	roughen(tb, m.Params, dev, 5)
	return m
}

// roughen adds noise to all parameters, so that norms are not all one and
// adapters not zero.
func roughen(tb testing.TB, p *gpu.Params, dev gpu.Device, seed uint64) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, t := range p.Tensors {
		values := make([]float32, t.Len)
		if err := dev.Download(values, t.Buffer); err != nil {
			tb.Fatal(err)
		}
		for i := range values {
			values[i] += float32(rng.NormFloat64() * 0.15)
		}
		dev.Upload(t.Buffer, values)
	}
}

func randomTokens(rng *rand.Rand, n, vocab int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(vocab))
	}
	return tokens
}

func newRunner(tb testing.TB, m *gpu.Model) *gpu.Runner {
	tb.Helper()
	context := m.Context * 3 / 4
	r, err := m.NewRunner(gpu.RunnerConfig{Pages: context / 4, Rows: 64, Wanted: 64, Sequences: 4, Context: context})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// rowsOf adds the tokens from..to-1 of a sequence to a step, all of them wanted.
func rowsOf(s *gpu.Step, tokens []int32, from, to int, pages []int32) {
	s.Tables = append(s.Tables, pages)
	for p := from; p < to; p++ {
		s.Wanted = append(s.Wanted, int32(len(s.Tokens)))
		s.Tokens = append(s.Tokens, tokens[p])
		s.Positions = append(s.Positions, int32(p))
		s.Slots = append(s.Slots, pages[p/gpu.PageSize]*gpu.PageSize+int32(p%gpu.PageSize))
		s.Sequences = append(s.Sequences, int32(len(s.Tables)-1))
	}
}

func step(tb testing.TB, r *gpu.Runner, s *gpu.Step) gpu.Logits {
	tb.Helper()
	var out gpu.Logits
	if err := r.Step(s, &out); err != nil {
		tb.Fatal(err)
	}
	return out
}

// TestStepIsOneForwardPass: a prompt gives the same bits whether it is one
// step, chunks, or token by token beside another sequence.
func TestStepIsOneForwardPass(t *testing.T) {
	for _, kind := range []string{gpu.Qwen3, gpu.Llama} {
		t.Run(kind, func(t *testing.T) {
			m := newModel(t, reference.New(reference.Single), tiny(kind, kind == gpu.Qwen3))
			rng := rand.New(rand.NewPCG(3, 3))
			tokens, other := randomTokens(rng, 40, m.Vocab), randomTokens(rng, 40, m.Vocab)

			var whole gpu.Step
			rowsOf(&whole, tokens, 0, 40, []int32{0, 1, 2})
			want := step(t, newRunner(t, m), &whole)

			chunked := newRunner(t, m)
			var got []float32
			for _, c := range [][2]int{{0, 7}, {7, 16}, {16, 17}, {17, 40}} {
				var s gpu.Step
				rowsOf(&s, tokens, c[0], c[1], []int32{5, 3, 8})
				got = append(got, step(t, chunked, &s).Values...)
			}
			if !slices.Equal(got, want.Values) {
				t.Error("chunked prefill: other bits than the whole prompt's")
			}

			decoded := newRunner(t, m)
			got = nil
			for i := range 40 {
				var s gpu.Step
				rowsOf(&s, other, i, i+1, []int32{4, 0, 11})
				rowsOf(&s, tokens, i, i+1, []int32{9, 10, 2})
				got = append(got, step(t, decoded, &s).Values[m.Vocab:]...)
			}
			if !slices.Equal(got, want.Values) {
				t.Error("decode beside another sequence: other bits than the whole prompt's")
			}
		})
	}
}

func TestCopyPage(t *testing.T) {
	t.Run("reference", func(t *testing.T) { copyPage(t, reference.New(reference.Single)) })
	for _, products := range []gpu.DType{gpu.F32, gpu.BF16} {
		t.Run(fmt.Sprint("cuda, products ", products), func(t *testing.T) { copyPage(t, emulated(t, cuda.Options{Products: products})) })
	}
}

func copyPage(t *testing.T, dev gpu.Device) {
	t.Helper()
	m := newModel(t, dev, tiny(gpu.Qwen3, true))
	r := newRunner(t, m)
	tokens := randomTokens(rand.New(rand.NewPCG(4, 4)), 22, m.Vocab)
	var prompt, first, second gpu.Step
	rowsOf(&prompt, tokens, 0, 21, []int32{0, 1})
	step(t, r, &prompt)
	if err := r.CopyPage(7, 1); err != nil {
		t.Fatal(err)
	}
	rowsOf(&first, tokens, 21, 22, []int32{0, 1})
	rowsOf(&second, tokens, 21, 22, []int32{0, 7})
	if a, b := step(t, r, &first), step(t, r, &second); !slices.Equal(a.Values, b.Values) {
		t.Error("a copied page continues otherwise than its source")
	}
	if err := r.CopyPage(12, 0); err == nil {
		t.Error("copied to a page that the arena does not have")
	}
}

func TestStepRefuses(t *testing.T) {
	m := newModel(t, reference.New(reference.Single), tiny(gpu.Llama, true))
	r := newRunner(t, m)
	for _, tc := range []struct {
		change func(s *gpu.Step)
		want   string
		reason string
	}{
		{func(s *gpu.Step) { s.Tokens[1] = 37 }, "token 37", "the embedding has 37 rows"},
		{func(s *gpu.Step) { s.Tokens[1] = -1 }, "token -1", "negative ids index before the table"},
		{func(s *gpu.Step) { s.Positions[2] = 48 }, "position 48", "beyond the context"},
		{func(s *gpu.Step) { s.Slots[0] = 3 }, "slot 3", "the slot of another position"},
		{func(s *gpu.Step) { s.Positions[1], s.Slots[1] = 0, 0 }, "slot 0 is written twice", "which of two keys stays would be chance"},
		{func(s *gpu.Step) { s.Tables[0][0] = 12 }, "page 12", "beyond the arena"},
		{func(s *gpu.Step) { s.Tables[0] = s.Tables[0][:0] }, "beyond the 0 pages", "a page is missing"},
		{func(s *gpu.Step) { s.Wanted[0] = 5 }, "wanted row 5", "there are 5 rows"},
		{func(s *gpu.Step) { s.Scale = []float32{1} }, "1 scales", "one scale a wanted row"},
		{func(s *gpu.Step) { s.Sequences[0] = 1 }, "sequence 1", "there is one"},
		{func(s *gpu.Step) { s.Positions = s.Positions[:4] }, "as many positions", "ragged rows"},
		{func(s *gpu.Step) { *s = gpu.Step{} }, "0 rows", "nothing to do"},
		{func(s *gpu.Step) { s.Adapters = []gpu.Span{{Adapter: "act", From: 0, To: 1}} }, `no adapter "act"`, "unknown adapter"},
	} {
		var s gpu.Step
		rowsOf(&s, []int32{1, 2, 3, 4, 5}, 0, 5, []int32{0})
		tc.change(&s)
		if err := r.Step(&s, &gpu.Logits{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
		}
	}
}
