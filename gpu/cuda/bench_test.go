package cuda_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
	"understudy/gpu/generate"
)

// BenchmarkCard is what bench.sh prints: a card's own limits, and the engine on random weights of
// the sizes of Qwen3. It is skipped where there is no card. UNDERSTUDY_CUDA_SHAPES=tiny runs it on
// the emulator, which shows that it runs, and no speed.
func BenchmarkCard(b *testing.B) {
	names := strings.Split(os.Getenv("UNDERSTUDY_CUDA_SHAPES"), ",")
	if names[0] == "" {
		names = []string{"0.6B", "1.7B", "4B", "8B"}
	}
	o := cuda.Options{Mode: gpu.Fast, Products: gpu.BF16, Sources: emulator.Sources()}
	if names[0] == "tiny" {
		folder, err := emulator.Build(b.Context(), emulator.Ascending)
		if err != nil {
			b.Fatal(err)
		}
		o.Libraries = []string{folder}
	}
	if _, err := cuda.Cards(o.Libraries...); errors.Is(err, cuda.ErrNoDevice) {
		b.Skip("no NVIDIA GPU here: nothing was measured")
	}
	c := card{options: o, emulated: names[0] == "tiny"}
	b.Run("copy", c.copy)
	b.Run("matmul/fast", func(b *testing.B) { c.matmul(b, gpu.Fast) })
	b.Run("matmul/exact", func(b *testing.B) { c.matmul(b, gpu.Exact) })
	for _, name := range names {
		shape, ok := qwen3Shapes()[name]
		if !ok {
			b.Fatalf("UNDERSTUDY_CUDA_SHAPES: no shape %q", name)
		}
		b.Run(name, func(b *testing.B) { c.engine(b, shape) })
	}
}

// qwen3Shapes are the published config.json files.
func qwen3Shapes() map[string]gpu.Config {
	shape := func(layers, width, hidden, heads int, tied bool) gpu.Config {
		return gpu.Config{
			Type: gpu.Qwen3, Layers: layers, Width: width, Hidden: hidden, Vocab: 151936, Context: 8192,
			Heads: gpu.Heads{H: heads, G: 8, D: 128}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 1e6}, Tied: tied, BOS: -1,
		}
	}
	return map[string]gpu.Config{
		"0.6B": shape(28, 1024, 3072, 16, true), "1.7B": shape(28, 2048, 6144, 16, true),
		"4B": shape(36, 2560, 9728, 32, true), "8B": shape(36, 4096, 12288, 32, false),
		"tiny": {
			Type: gpu.Qwen3, Layers: 1, Width: 16, Hidden: 32, Vocab: 64, Context: 1024,
			Heads: gpu.Heads{H: 2, G: 1, D: 16}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 1e6}, Tied: true, BOS: -1,
		},
	}
}

// card is one run's measurements.
type card struct {
	options  cuda.Options
	emulated bool
}

// pick is a size for a card, or for the emulator.
func (c card) pick(onCard, emulated int) int {
	if c.emulated {
		return emulated
	}
	return onCard
}

func (c card) open(b *testing.B, mode gpu.Mode) *cuda.Device {
	b.Helper()
	o := c.options
	o.Mode = mode
	d, err := cuda.New(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(d.Close)
	return d
}

func (c card) alloc(b *testing.B, d *cuda.Device, kind gpu.DType, n int) gpu.Buffer {
	b.Helper()
	x, err := d.Alloc(kind, n)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Free(x) })
	return x
}

func (c card) sync(b *testing.B, d *cuda.Device) {
	b.Helper()
	if err := d.Sync(); err != nil {
		b.Fatal(err)
	}
}

// copy reads and writes memory.
func (c card) copy(b *testing.B) {
	d, n := c.open(b, gpu.Exact), c.pick(1<<29, 1<<16)
	x, y := c.alloc(b, d, gpu.F32, n), c.alloc(b, d, gpu.F32, n)
	c.sync(b, d)
	began := time.Now()
	for b.Loop() {
		d.Copy(y, x)
	}
	c.sync(b, d)
	b.ReportMetric(float64(b.N)*8*float64(n)/time.Since(began).Seconds()/1e9, "GB/s")
}

// matmul multiplies squares in bfloat16.
func (c card) matmul(b *testing.B, mode gpu.Mode) {
	b.Helper()
	d, n := c.open(b, mode), c.pick(8192, 32)
	x, y := c.alloc(b, d, gpu.BF16, n*n), c.alloc(b, d, gpu.BF16, n*n)
	w := d.NewWeight(c.alloc(b, d, gpu.BF16, n*n), n, n)
	d.MatMul(y, x, w)
	c.sync(b, d)
	began := time.Now()
	for b.Loop() {
		d.MatMul(y, x, w)
	}
	c.sync(b, d)
	b.ReportMetric(float64(b.N)*2*float64(n)*float64(n)*float64(n)/time.Since(began).Seconds()/1e12, "TFLOP/s")
}

// engine writes and trains with random weights.
func (c card) engine(b *testing.B, shape gpu.Config) {
	b.Helper()
	d := c.open(b, gpu.Fast)
	m, err := gpu.NewRandom(d, shape, 1)
	if err != nil {
		b.Skip(err)
	}
	b.Run("prefill", func(b *testing.B) { c.prefill(b, m) })
	for _, batch := range []int{1, c.pick(64, 8), c.pick(256, 16)} {
		for _, group := range []int{1, 8} {
			if batch%group == 0 {
				b.Run(fmt.Sprintf("decode/batch=%d/shared=%d", batch, group), func(b *testing.B) { c.decode(b, m, batch, group) })
			}
		}
	}
	b.Run("train", func(b *testing.B) { c.train(b, m) })
}

func (c card) writer(b *testing.B, m *gpu.Model, batch int) *generate.Engine {
	b.Helper()
	tokens := c.pick(1024, 64)
	e, err := generate.New(m, generate.Config{
		Memory: int64(batch*tokens/gpu.PageSize) * m.PageBytes(), Batch: batch, Prefill: c.pick(8192, 64), Context: tokens, Workers: 16,
	})
	if err != nil {
		b.Skip(err) // it does not fit: the error says by how much
	}
	b.Cleanup(e.Close)
	return e
}

func prompt(seed uint64, n, vocab int) []int32 {
	rng := rand.New(rand.NewPCG(seed, 0))
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(vocab))
	}
	return tokens
}

// prefill is prompt tokens a second, eight prompts at a time.
func (c card) prefill(b *testing.B, m *gpu.Model) {
	b.Helper()
	const prompts = 8
	e, n, seed := c.writer(b, m, prompts), c.pick(600, 24), uint64(0)
	for b.Loop() {
		var group errgroup.Group
		for range prompts {
			seed++
			r := generate.Request{Prompt: prompt(seed, n, m.Vocab), Max: 1, IgnoreEnd: true}
			group.Go(func() error {
				_, err := e.Generate(b.Context(), r)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*prompts*n)/b.Elapsed().Seconds(), "tokens/s")
	head := int64(m.Vocab) * int64(m.Width) // of the last token alone
	b.ReportMetric(2*float64(m.Matrices()-head)/1e9, "GFLOP/token")
}

// decode is generated tokens a second of batch texts after prompts of 600 tokens, in groups that
// share theirs. It is the difference of a long and a short run, so that prefills do not count;
// drawing tokens does.
func (c card) decode(b *testing.B, m *gpu.Model, batch, shared int) {
	b.Helper()
	e, n, more := c.writer(b, m, batch), c.pick(600, 24), c.pick(128, 8)
	write := func(tokens int) float64 {
		began := time.Now()
		var group errgroup.Group
		for i := range batch / shared {
			r := generate.Request{
				Prompt: prompt(uint64(i), n, m.Vocab), Max: tokens, IgnoreEnd: true,
				Sampling: generate.Sampling{Temperature: 1, Seed: uint64(i)},
			}
			group.Go(func() error {
				_, err := e.Rollouts(b.Context(), r, shared)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		return time.Since(began).Seconds()
	}
	write(4) // makes the graphs
	write(4)
	var rates []float64
	for b.Loop() {
		short := write(4)
		rates = append(rates, float64(batch*more)/(write(4+more)-short))
	}
	slices.Sort(rates)
	b.ReportMetric(rates[len(rates)/2], "tokens/s")
	b.ReportMetric(bytesOfToken(m.Config, batch, shared, n, 4+float64(more)/2)/1e6, "MB/token")
}

// bytesOfToken is what must be read for a token of a decode step, in bfloat16: its part of the
// weights, its own keys and values, and its part of its group's prompt.
func bytesOfToken(c gpu.Config, batch, shared, prompt int, own float64) float64 {
	key := float64(2 * 2 * c.Layers * c.G * c.D)
	return 2*float64(c.Matrices())/float64(batch) + key*(own+float64(prompt)/float64(shared))
}

// train is tokens a second of whole steps on sequences of 1024 tokens, at 6 operations an element of a
// matrix and token: what checkpointing computes again, and attention, do not count.
func (c card) train(b *testing.B, m *gpu.Model) {
	b.Helper()
	tokens, each := c.pick(8192, 32), c.pick(1024, 16)
	config := gpu.TrainerConfig{Tokens: tokens, Checkpoint: true}
	adamW := gpu.DefaultAdamW(1e-5)
	if m.Parameters() > 5e9 {
		adamW.Moments = gpu.BF16 // 8B does not fit on 141 GB with others
	}
	plan, err := cuda.Job{Model: m.Config, Products: gpu.BF16, Mode: gpu.Fast, Trained: true, Training: &config, Moments: adamW.Moments}.Plan()
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("planned:\n%s", plan)
	tr, err := m.NewTrainer(config)
	if err != nil {
		b.Skip(err)
	}
	defer tr.Free()
	o, err := tr.NewAdamW(adamW)
	if err != nil {
		b.Skip(err)
	}
	defer o.Free()
	batch := &gpu.Batch{Tokens: prompt(1, tokens, m.Vocab)}
	for from := 0; from < tokens; from += each {
		batch.Lengths = append(batch.Lengths, int32(each))
		for i := from; i < from+each-1; i++ {
			batch.Rows, batch.Targets = append(batch.Rows, int32(i)), append(batch.Targets, batch.Tokens[i+1])
		}
	}
	dlogp := slices.Repeat([]float32{-1 / float32(tokens)}, len(batch.Rows))
	var s gpu.Scores
	step := func() {
		if err := tr.Forward(batch, &s); err != nil {
			b.Fatal(err)
		}
		if err := tr.Backward(dlogp, nil); err != nil {
			b.Fatal(err)
		}
		if _, err := o.Update(); err != nil {
			b.Fatal(err)
		}
	}
	step()
	began := time.Now()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(b.N*tokens)/time.Since(began).Seconds(), "tokens/s")
	b.ReportMetric(6*float64(m.Matrices())/1e9, "GFLOP/token")
}
