package gpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/reference"
)

// batchOf packs sequences and scores every token but the first of each.
func batchOf(sequences ...[]int32) *gpu.Batch {
	b := &gpu.Batch{}
	for _, s := range sequences {
		start := int32(len(b.Tokens))
		b.Tokens = append(b.Tokens, s...)
		b.Lengths = append(b.Lengths, int32(len(s)))
		for i := 1; i < len(s); i++ {
			b.Rows = append(b.Rows, start+int32(i)-1)
			b.Targets = append(b.Targets, s[i])
		}
	}
	return b
}

func newTrainer(tb testing.TB, m *gpu.Model, c gpu.TrainerConfig) *gpu.Trainer {
	tb.Helper()
	if c.Tokens == 0 {
		c.Tokens = 96
	}
	tr, err := m.NewTrainer(c)
	if err != nil {
		tb.Fatal(err)
	}
	return tr
}

func score(tb testing.TB, tr *gpu.Trainer, b *gpu.Batch) gpu.Scores {
	tb.Helper()
	var out gpu.Scores
	if err := tr.Forward(b, &out); err != nil {
		tb.Fatal(err)
	}
	return out
}

// gradients runs one micro-batch with an uneven loss on log-probabilities and
// entropies.
func gradients(tb testing.TB, tr *gpu.Trainer, b *gpu.Batch) {
	tb.Helper()
	score(tb, tr, b)
	dlogp, dent := lossWeights(len(b.Rows))
	if err := tr.Backward(dlogp, dent); err != nil {
		tb.Fatal(err)
	}
}

func lossWeights(n int) (dlogp, dent []float32) {
	for i := range n {
		dlogp = append(dlogp, float32(math.Sin(float64(i)+1)))
		dent = append(dent, float32(math.Cos(float64(3*i))/4))
	}
	return dlogp, dent
}

func download(tb testing.TB, dev gpu.Device, p *gpu.Params) []float32 {
	tb.Helper()
	values := make([]float32, p.Values.Len)
	if err := dev.Download(values, p.Values); err != nil {
		tb.Fatal(err)
	}
	return values
}

// spy keeps what LogProbs wrote, in float64.
type spy struct {
	*reference.Device
	logp, entropy []float64
}

func (s *spy) LogProbs(t gpu.TokenLoss) {
	s.Device.LogProbs(t)
	s.logp = append(s.logp, s.Floats(t.LogProb)...)
	s.entropy = append(s.entropy, s.Floats(t.Entropy)...)
}

// TestFiniteDifferences: every parameter kind's gradient is the slope of the
// loss, in float64.
func TestFiniteDifferences(t *testing.T) {
	for _, kind := range []string{gpu.Qwen3, gpu.Llama} {
		for _, tied := range []bool{true, false} {
			for _, adapted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s tied=%t adapters=%t", kind, tied, adapted), func(t *testing.T) {
					t.Parallel()
					finiteDifferences(t, tiny(kind, tied), adapted)
				})
			}
		}
	}
}

func finiteDifferences(t *testing.T, c gpu.Config, adapted bool) {
	t.Helper()
	dev := &spy{Device: reference.New(reference.Double)}
	m := newModel(t, dev, c)
	rng := rand.New(rand.NewPCG(7, 7))
	b := batchOf(randomTokens(rng, 9, c.Vocab), randomTokens(rng, 3, c.Vocab), randomTokens(rng, 12, c.Vocab))
	b.Scale = make([]float32, len(b.Rows))
	for i := range b.Scale {
		b.Scale[i] = 0.5 + rng.Float32()
	}
	config := gpu.TrainerConfig{LogitRows: 8}
	sets := map[string]*gpu.Params{"": m.Params}
	if adapted {
		config.Adapters = []string{"act", "rehearse"}
		for i, name := range config.Adapters {
			a, err := m.AddAdapter(name, gpu.AdapterConfig{Rank: 2 + i, Alpha: 3}, uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			roughen(t, a.Params, dev, uint64(i))
			sets[name] = a.Params
		}
		delete(sets, "")
		b.Adapters = []gpu.Span{{Adapter: "act", From: 0, To: 9}, {Adapter: "rehearse", From: 12, To: 24}}
	}
	tr := newTrainer(t, m, config)
	gradients(t, tr, b)
	dlogp, dent := lossWeights(len(b.Rows))
	loss := func() float64 {
		dev.logp, dev.entropy = nil, nil
		score(t, tr, b)
		sum := 0.0
		for i := range dlogp {
			sum += float64(dlogp[i])*dev.logp[i] + float64(dent[i])*dev.entropy[i]
		}
		return sum
	}
	const step = 1e-5
	for name, params := range sets {
		for _, p := range params.Tensors {
			grad, _ := tr.Gradients(name).Find(p.Name)
			values, got := dev.Floats(p.Buffer), dev.Floats(grad.Buffer)
			for range 3 {
				i := rng.IntN(len(values))
				if p.Name == "model.embed_tokens.weight" {
					i = int(b.Tokens[rng.IntN(len(b.Tokens))])*c.Width + rng.IntN(c.Width)
				}
				was := values[i]
				values[i] = was + step
				up := loss()
				values[i] = was - step
				slope := (up - loss()) / (2 * step)
				values[i] = was
				if math.Abs(slope-got[i]) > 1e-6*(1+math.Abs(slope)) {
					t.Errorf("%s %s[%d]: gradient %.9g, slope %.9g", name, p.Name, i, got[i], slope)
				}
			}
		}
	}
}

// TestPackedIsSingle: what is packed beside a sequence changes none of its bits.
func TestPackedIsSingle(t *testing.T) {
	for _, dev := range exactDevices(t) {
		t.Run(nameOf(dev), func(t *testing.T) {
			m := newModel(t, dev, tiny(gpu.Qwen3, true))
			rng := rand.New(rand.NewPCG(9, 9))
			tr := newTrainer(t, m, gpu.TrainerConfig{})
			var sequences [][]int32
			var want, got []float32
			for _, n := range []int{5, 33, 2, 18} {
				s := randomTokens(rng, n, m.Vocab)
				sequences = append(sequences, s)
				want = append(want, score(t, tr, batchOf(s)).LogProb...)
			}
			got = score(t, tr, batchOf(sequences...)).LogProb
			if !slices.Equal(got, want) {
				t.Errorf("packed %v\nalone %v", got, want)
			}
		})
	}
}

// TestMemorySavingKeepsBits: checkpointing, logits in parts and scoring alone
// give the bits of plain training.
func TestMemorySavingKeepsBits(t *testing.T) {
	for _, dev := range exactDevices(t) {
		t.Run(nameOf(dev), func(t *testing.T) {
			m := newModel(t, dev, tiny(gpu.Qwen3, true))
			rng := rand.New(rand.NewPCG(9, 9))
			b := batchOf(randomTokens(rng, 31, m.Vocab), randomTokens(rng, 40, m.Vocab))
			plain := newTrainer(t, m, gpu.TrainerConfig{})
			want := score(t, plain, b)
			gradients(t, plain, b)
			grads := download(t, dev, plain.Gradients(""))
			saving := newTrainer(t, m, gpu.TrainerConfig{Checkpoint: true})
			gradients(t, saving, b)
			if !slices.Equal(download(t, dev, saving.Gradients("")), grads) {
				t.Error("checkpointing: other gradients")
			}
			if saving.Bytes() >= plain.Bytes() {
				t.Errorf("checkpointing takes %d bytes, plain training %d", saving.Bytes(), plain.Bytes())
			}
			got := score(t, newTrainer(t, m, gpu.TrainerConfig{ScoreOnly: true, LogitRows: 16}), b)
			if !slices.Equal(got.LogProb, want.LogProb) || !slices.Equal(got.Entropy, want.Entropy) {
				t.Error("scoring alone: other log-probabilities or entropies")
			}
		})
	}
}

// TestMicroBatchesAdd: gradients of micro-batches are those of one batch, up to
// the order of summation.
func TestMicroBatchesAdd(t *testing.T) {
	dev := reference.New(reference.Double)
	m := newModel(t, dev, tiny(gpu.Llama, false))
	rng := rand.New(rand.NewPCG(2, 9))
	one, two := randomTokens(rng, 12, m.Vocab), randomTokens(rng, 7, m.Vocab)
	whole, parts := newTrainer(t, m, gpu.TrainerConfig{}), newTrainer(t, m, gpu.TrainerConfig{})
	b := batchOf(one, two)
	gradients(t, whole, b)
	dlogp, dent := lossWeights(len(b.Rows))
	for _, part := range []struct {
		tokens   []int32
		from, to int
	}{{one, 0, 11}, {two, 11, 17}} {
		score(t, parts, batchOf(part.tokens))
		if err := parts.Backward(dlogp[part.from:part.to], dent[part.from:part.to]); err != nil {
			t.Fatal(err)
		}
	}
	want, got := dev.Floats(whole.Gradients("").Values), dev.Floats(parts.Gradients("").Values)
	for i := range want {
		if math.Abs(want[i]-got[i]) > 1e-9 {
			t.Fatalf("gradient %d: %g in parts, %g at once", i, got[i], want[i])
		}
	}
}
