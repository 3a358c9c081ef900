package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"understudy/gpu"
	"understudy/gpu/generate"
)

// What the engine is measured on: the sizes of issue 6.
const (
	benchPrompt   = 600 // tokens
	benchNew      = 64
	benchRollouts = 8
	benchContext  = 1024
)

// shape135M is that of SmolLM2-135M.
func shape135M() gpu.Config {
	return gpu.Config{
		Type: gpu.Llama, Layers: 30, Width: 576, Hidden: 1536, Vocab: 49152, Context: 2048,
		Heads: gpu.Heads{H: 9, G: 3, D: 64}, Eps: 1e-5, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1,
	}
}

// benchEngine measures the built-in engine on a model's folder, or on random
// weights of SmolLM2-135M's shape.
func benchEngine(ctx context.Context, inv *invocation, dir string, f engineFlags) (err error) {
	f.context = benchContext
	var e *engine
	if dir != "" {
		if e, err = openEngine(dir, f); err != nil {
			return err
		}
	} else if e, err = randomEngine(f); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	e.Close() // each measurement has its own
	b := &engineBench{e: e, flags: f, parameters: e.weightBytes() / 4}
	for _, t := range e.model.Params.Tensors {
		b.bytes += int64(t.Len) * int64(t.Type.Size())
		if len(t.Shape) > 1 {
			b.dtype = t.Type
		}
	}
	return b.run(ctx, inv)
}

func randomEngine(f engineFlags) (*engine, error) {
	e := &engine{name: "random weights of SmolLM2-135M's shape"}
	if err := e.openDevice(f); err != nil {
		return nil, err
	}
	var err error
	if e.model, err = gpu.NewRandom(e.device, shape135M(), 1); err != nil {
		e.device.Close()
		return nil, err
	}
	return e, e.start(f, nil)
}

// engineBench is one run's measurements.
type engineBench struct {
	e          *engine
	flags      engineFlags
	parameters int64
	bytes      int64 // of the weights
	dtype      gpu.DType
}

// run prints each figure as soon as it is there: all of them take minutes.
func (b *engineBench) run(ctx context.Context, inv *invocation) error {
	row := func(name, figure, remark string, args ...any) { // a tabwriter would keep them to itself
		fmt.Fprintf(inv.stdout, "%-25s  %14s  %s\n", name, figure, fmt.Sprintf(remark, args...))
	}
	fmt.Fprintf(inv.stdout, "%s, %.0fM parameters, %s, %s mode, %s\n\n", b.e.name, float64(b.parameters)/1e6, b.dtype, b.e.device.Mode(), b.e.device.Name())
	began := now()
	prefill, err := b.prefill(ctx)
	if err != nil {
		return err
	}
	row("prefill", perSecond(prefill), "%d-token prompts, one at a time", benchPrompt)
	if err := b.decodes(ctx, row); err != nil {
		return err
	}
	shared, batched, lone, err := b.sharing(ctx)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("%d rollouts of one prompt", benchRollouts), seconds(shared), "%d + %d tokens", benchPrompt, benchNew)
	row(fmt.Sprintf("%d prompts in one batch", benchRollouts), seconds(batched), "sharing is %.1f times as fast", batched.Seconds()/shared.Seconds())
	row(fmt.Sprintf("%d prompts, one at a time", benchRollouts), seconds(lone), "sharing is %.1f times as fast", lone.Seconds()/shared.Seconds())
	row("processors", fmt.Sprintf("%.1f of %d", now().since(began), b.threads()), "at work on average; when other programs take their share, these figures are low")
	return nil
}

// decodes are rates beside what the machine allows. Its limits are measured before
// and after each, and the better ones count: others may use it, too.
func (b *engineBench) decodes(ctx context.Context, row func(name, figure, remark string, args ...any)) error {
	memory := make([]uint64, 64<<20) // 512 MiB: more than caches hold
	for i := range memory {
		memory[i] = uint64(i) //nolint:gosec // anything but untouched pages
	}
	var bandwidth float64
	for _, batch := range []int{1, 4, 16} {
		var products float64
		limits := func() error {
			rate, err := productRate(b.e.device, batch)
			bandwidth, products = max(bandwidth, bandwidthOf(memory, b.threads())), max(products, rate)
			return err
		}
		if err := limits(); err != nil {
			return err
		}
		rate, err := b.decode(ctx, batch)
		if err := errors.Join(err, limits()); err != nil {
			return err
		}
		byMemory := float64(batch) * bandwidth / float64(b.bytes)
		byProducts := products / float64(2*b.parameters)
		row(fmt.Sprintf("decode, batch %d", batch), perSecond(rate), "%.0f %% of what the machine allows: %.1f by memory (%.1f GB/s), %.1f by products (%.0f GFLOP/s)",
			100*rate/min(byMemory, byProducts), byMemory, bandwidth/1e9, byProducts, products/1e9)
	}
	return nil
}

func (b *engineBench) threads() int { return cmp.Or(b.flags.threads, runtime.GOMAXPROCS(0)) }

func perSecond(rate float64) string { return fmt.Sprintf("%.1f tokens/s", rate) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// moment is a time by the clock, and by this program's processor time.
type moment struct {
	clock     time.Time
	processor time.Duration
}

func now() moment {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // it cannot fail for oneself
	return moment{time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

// since is how many processors were busy with this program, on average.
func (m moment) since(began moment) float64 {
	return (m.processor - began.processor).Seconds() / m.clock.Sub(began.clock).Seconds()
}

// with runs f on a fresh engine: nothing is cached.
func (b *engineBench) with(batch int, f func(e *generate.Engine) error) error {
	e, err := generate.New(b.e.model, generate.Config{
		Memory: b.flags.kv.bytes(), Batch: batch, Context: benchContext, Workers: max(b.flags.threads, 2),
	})
	if err != nil {
		return err
	}
	defer debug.FreeOSMemory()
	defer e.Close()
	return f(e)
}

func (b *engineBench) request(seed uint64, length, most int) generate.Request {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a benchmark's prompts
	r := generate.Request{Max: most, IgnoreEnd: true, Sampling: generate.Sampling{Temperature: 1, Seed: seed}}
	for range length {
		r.Prompt = append(r.Prompt, int32(rng.IntN(b.e.model.Vocab))) //nolint:gosec // below the vocabulary
	}
	return r
}

// prefill is prompt tokens a second.
func (b *engineBench) prefill(ctx context.Context) (rate float64, err error) {
	const prompts = 3
	err = b.with(1, func(e *generate.Engine) error {
		began := time.Now()
		for i := range prompts {
			if _, err := e.Generate(ctx, b.request(uint64(i), benchPrompt, 1)); err != nil {
				return err
			}
		}
		rate = prompts * benchPrompt / time.Since(began).Seconds()
		return nil
	})
	return rate, err
}

// decode is generated tokens a second of batch texts at once, after prompts of
// 16 tokens, whose time is not counted.
func (b *engineBench) decode(ctx context.Context, batch int) (rate float64, err error) {
	err = b.with(batch, func(e *generate.Engine) error {
		run := func(tokens int) (time.Duration, error) {
			began := time.Now()
			_, err := e.Rollouts(ctx, b.request(1, 16, tokens), batch)
			return time.Since(began), err
		}
		if _, err := run(2); err != nil { // warms up, and leaves the prompt in the tree
			return err
		}
		short, err := run(8)
		if err != nil {
			return err
		}
		long, err := run(8 + benchNew)
		rate = float64(batch*benchNew) / (long - short).Seconds()
		return err
	})
	return rate, err
}

// sharing times rollouts of one prompt, the same number of different prompts in
// one batch, and those one after another.
func (b *engineBench) sharing(ctx context.Context) (shared, batched, lone time.Duration, err error) {
	timed := func(batch int, into *time.Duration, f func(e *generate.Engine) error) {
		if err != nil {
			return
		}
		err = b.with(batch, func(e *generate.Engine) error {
			began := time.Now()
			err := f(e)
			*into = time.Since(began)
			return err
		})
	}
	timed(benchRollouts, &shared, func(e *generate.Engine) error {
		_, err := e.Rollouts(ctx, b.request(1, benchPrompt, benchNew), benchRollouts)
		return err
	})
	timed(benchRollouts, &batched, func(e *generate.Engine) error {
		group, ctx := errgroup.WithContext(ctx)
		for i := range benchRollouts {
			group.Go(func() error {
				_, err := e.Generate(ctx, b.request(uint64(10+i), benchPrompt, benchNew))
				return err
			})
		}
		return group.Wait()
	})
	timed(1, &lone, func(e *generate.Engine) error {
		for i := range benchRollouts {
			if _, err := e.Generate(ctx, b.request(uint64(20+i), benchPrompt, benchNew)); err != nil {
				return err
			}
		}
		return nil
	})
	return shared, batched, lone, err
}

// bandwidthOf is how many bytes a second so many goroutines read from memory that
// no cache holds: the best of several parts, as others may use the machine, too.
func bandwidthOf(data []uint64, threads int) (best float64) {
	const parts = 16
	sums := make([]uint64, threads)
	for p := range parts * 3 {
		part := data[p%parts*len(data)/parts : (p%parts+1)*len(data)/parts]
		began := time.Now()
		var group sync.WaitGroup
		for t := range threads {
			group.Go(func() { sums[t] += sum(part[t*len(part)/threads : (t+1)*len(part)/threads]) })
		}
		group.Wait()
		best = max(best, float64(8*len(part))/time.Since(began).Seconds())
	}
	return best
}

func sum(data []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(data) >= 8; data = data[8:] {
		a += data[0] + data[4]
		b += data[1] + data[5]
		c += data[2] + data[6]
		d += data[3] + data[7]
	}
	return a + b + c + d
}

// productRate is the operations a second of rows times a weight that stays in the
// cache.
func productRate(dev gpu.Device, rows int) (best float64, err error) {
	const n = 1024
	var p [3]gpu.Buffer
	for i, length := range []int{rows * n, rows * n, n * n} {
		if p[i], err = dev.Alloc(gpu.F32, length); err != nil {
			return 0, err
		}
		defer dev.Free(p[i])
	}
	w := dev.NewWeight(p[2], n, n)
	for range 30 {
		began := time.Now()
		dev.MatMul(p[0], p[1], w)
		if err := dev.Sync(); err != nil {
			return 0, err
		}
		best = max(best, 2*float64(rows)*n*n/time.Since(began).Seconds())
	}
	return best, nil
}
