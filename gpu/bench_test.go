package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"understudy/gpu"
	"understudy/gpu/host"
)

func newHost(tb testing.TB, o host.Options) *host.Device {
	tb.Helper()
	dev, err := host.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(dev.Close)
	return dev
}

// BenchmarkTraining is issue 6's training goal: a Qwen3 of width 256 and 6
// layers on four sequences of 256 tokens, forward, backward, clipping, AdamW.
// With UNDERSTUDY_TORCH naming a Python that has torch and transformers, the same
// work is then done by PyTorch on as many threads, and the ratio reported.
func BenchmarkTraining(b *testing.B) {
	for _, threads := range threadCounts() {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			dev := newHost(b, host.Options{Threads: threads})
			m, err := gpu.NewRandom(dev, gpu.Config{
				Type: gpu.Qwen3, Layers: 6, Width: 256, Hidden: 768, Vocab: 4096, Context: 512,
				Heads: gpu.Heads{H: 4, G: 2, D: 64}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 1e4}, Tied: true, BOS: -1,
			}, 1)
			if err != nil {
				b.Fatal(err)
			}
			tr := newTrainer(b, m, gpu.TrainerConfig{Tokens: 1024})
			defer tr.Free()
			o, err := tr.NewAdamW(gpu.DefaultAdamW(1e-4))
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			batch := batchOf(randomTokens(rng, 256, 4096), randomTokens(rng, 256, 4096), randomTokens(rng, 256, 4096), randomTokens(rng, 256, 4096))
			trainStep(b, tr, o, batch)
			torch := startTorch(b, threads)
			var ours, theirs []float64
			for b.Loop() {
				ours = append(ours, seconds(func() { trainStep(b, tr, o, batch) }))
				b.StopTimer()
				theirs = append(theirs, torch()...)
				b.StartTimer()
			}
			b.ReportMetric(1024/median(ours), "tokens/s")
			b.ReportMetric(float64(tr.Bytes())/(1<<20), "MiB")
			if len(theirs) > 0 {
				b.ReportMetric(1024/median(theirs), "torch-tokens/s")
				b.ReportMetric(median(theirs)/median(ours), "of-torch")
				b.ReportMetric(slices.Min(theirs)/slices.Min(ours), "best-of-torch")
			}
		})
	}
}

func threadCounts() []int {
	if n := runtime.GOMAXPROCS(0); n > 1 {
		return []int{1, n}
	}
	return []int{1}
}

func trainStep(b *testing.B, tr *gpu.Trainer, o *gpu.AdamW, batch *gpu.Batch) {
	b.Helper()
	score(b, tr, batch)
	dlogp := make([]float32, len(batch.Rows))
	for i := range dlogp {
		dlogp[i] = -1 / float32(len(dlogp))
	}
	if err := tr.Backward(dlogp, nil); err != nil {
		b.Fatal(err)
	}
	if _, err := o.Update(); err != nil {
		b.Fatal(err)
	}
}

func seconds(do func()) float64 {
	start := time.Now()
	do()
	return time.Since(start).Seconds()
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// startTorch gives a function that makes one step of PyTorch and returns its
// seconds, or nothing when UNDERSTUDY_TORCH is not set. Steps of both take turns,
// so that a busy machine is busy for both.
func startTorch(b *testing.B, threads int) func() []float64 {
	b.Helper()
	python := os.Getenv("UNDERSTUDY_TORCH")
	if python == "" {
		return func() []float64 { return nil }
	}
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), python, filepath.Join("testdata", "torch_bench.py"), strconv.Itoa(threads))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatalf("UNDERSTUDY_TORCH: %v (a relative path starts in the package's folder: give an absolute one)", err)
	}
	b.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			b.Errorf("%v: %v", cmd, err)
		}
	})
	return func() []float64 {
		var seconds float64
		if _, err := fmt.Fprintln(in); err != nil {
			b.Fatal(err)
		}
		if _, err := fmt.Fscan(out, &seconds); err != nil {
			b.Fatalf("%v: %v", cmd, err)
		}
		return []float64{seconds}
	}
}
