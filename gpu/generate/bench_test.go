package generate_test

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"understudy/gpu"
	"understudy/gpu/generate"
	"understudy/gpu/host"
)

// benchModel has random weights of a small model's shape: 6 layers of width 256.
func benchModel(b *testing.B) *gpu.Model {
	b.Helper()
	dev, err := host.New(host.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(dev.Close)
	m, err := gpu.NewRandom(dev, gpu.Config{
		Type: gpu.Qwen3, Layers: 6, Width: 256, Hidden: 1024, Vocab: 8192, Context: 1024,
		Heads: gpu.Heads{H: 8, G: 4, D: 32}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1,
	}, 1)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func benchRequest(seed uint64, length, most int) generate.Request {
	r := request(seed, length, most)
	r.TopLogProbs = 0
	return r
}

// BenchmarkSharing is issue 6's goal for prefixes: 8 rollouts of a 600-token
// prompt with 64 new tokens, beside 8 separate texts (one after another, and in
// one batch) in the same run.
func BenchmarkSharing(b *testing.B) {
	const rollouts, prompt, most = 8, 600, 64
	m := benchModel(b)
	timed := func(batch int, f func(e *generate.Engine) error) spent {
		e, err := generate.New(m, generate.Config{Batch: batch})
		if err != nil {
			b.Fatal(err)
		}
		defer e.Close()
		began := now(b)
		if err := f(e); err != nil {
			b.Fatal(err)
		}
		return now(b).since(began)
	}
	var shared, batched, lone spent
	for b.Loop() {
		shared.add(timed(rollouts, func(e *generate.Engine) error {
			_, err := e.Rollouts(b.Context(), benchRequest(1, prompt, most), rollouts)
			return err
		}))
		batched.add(timed(rollouts, func(e *generate.Engine) error {
			var group errgroup.Group
			for i := range uint64(rollouts) {
				group.Go(func() error {
					_, err := e.Generate(b.Context(), benchRequest(10+i, prompt, most))
					return err
				})
			}
			return group.Wait()
		}))
		lone.add(timed(1, func(e *generate.Engine) error {
			for i := range uint64(rollouts) {
				if _, err := e.Generate(b.Context(), benchRequest(20+i, prompt, most)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	b.ReportMetric(float64(b.N*rollouts*most)/shared.wall, "tokens/s")
	b.ReportMetric(batched.wall/shared.wall, "×one-batch")
	b.ReportMetric(lone.wall/shared.wall, "×one-by-one")
	b.ReportMetric(batched.processor/shared.processor, "×one-batch-cpu")
	b.ReportMetric(lone.processor/shared.processor, "×one-by-one-cpu")
}

// spent is seconds of the clock, and of the processors in this process: on a
// machine that does other things, too, the latter say more.
type spent struct{ wall, processor float64 }

func (s *spent) add(o spent) {
	s.wall += o.wall
	s.processor += o.processor
}

func (s spent) since(began spent) spent {
	return spent{s.wall - began.wall, s.processor - began.processor}
}

func now(b *testing.B) spent {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return spent{
		wall:      float64(time.Now().UnixNano()) / 1e9,
		processor: time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(),
	}
}

// BenchmarkEngine is what scheduling and sampling add to the model's steps:
// tokens a second of 16 texts, beside the same steps without an engine.
func BenchmarkEngine(b *testing.B) {
	const batch, most = 16, 64
	m := benchModel(b)
	for name, s := range map[string]generate.Sampling{
		"greedy": {}, "temperature": {Temperature: 1, Seed: 1}, "top-p": {Temperature: 1, TopP: 0.9, TopK: 50, Seed: 1},
	} {
		b.Run(name, func(b *testing.B) {
			e, err := generate.New(m, generate.Config{Batch: batch, Workers: 2})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			r := benchRequest(1, 8, most)
			r.Sampling = s
			began := now(b)
			for b.Loop() {
				if _, err := e.Rollouts(b.Context(), r, batch); err != nil {
					b.Fatal(err)
				}
			}
			engine := now(b).since(began)
			bare := bareSteps(b, m, batch, most, b.N)
			b.ReportMetric(float64(b.N*batch*most)/engine.wall, "tokens/s")
			b.ReportMetric(bare.wall/engine.wall, "of-bare-steps")
			b.ReportMetric(bare.processor/engine.processor, "of-bare-steps-cpu")
		})
	}
}

// bareSteps times the steps that the engine makes, and nothing else.
func bareSteps(b *testing.B, m *gpu.Model, batch, steps, rounds int) spent {
	b.Helper()
	pages := 1 + (8+steps)/gpu.PageSize
	r, err := m.NewRunner(gpu.RunnerConfig{Pages: batch * pages, Rows: batch, Wanted: batch, Sequences: batch, Context: pages * gpu.PageSize})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Free()
	var out gpu.Logits
	began := now(b)
	for range rounds {
		for p := range int32(steps) {
			s := &gpu.Step{}
			for i := range int32(batch) {
				table := make([]int32, pages)
				for k := range table {
					table[k] = i*int32(pages) + int32(k)
				}
				s.Tables, s.Sequences = append(s.Tables, table), append(s.Sequences, i)
				s.Tokens, s.Wanted, s.Positions = append(s.Tokens, i), append(s.Wanted, i), append(s.Positions, 8+p)
				s.Slots = append(s.Slots, table[(8+p)/gpu.PageSize]*gpu.PageSize+(8+p)%gpu.PageSize)
			}
			if err := r.Step(s, &out); err != nil {
				b.Fatal(err)
			}
		}
	}
	return now(b).since(began)
}
