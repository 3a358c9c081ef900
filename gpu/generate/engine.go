package generate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"understudy/gpu"
)

// Config is how much an engine may take.
type Config struct {
	// Memory is the bytes of the KV arena; 0 = what Batch sequences of Context
	// tokens need, at most 1 GiB.
	Memory  int64
	Batch   int // most requests that run at once; 0 = 16
	Prefill int // most prefill rows of a step, beside the Batch decode rows; 0 = 256
	Context int // most tokens of a request, prompt and text; 0 = the model's
	// Tokens are the bytes of each token id, nil for special ones; for texts and
	// stop strings.
	Tokens [][]byte
	End    []int32 // tokens that end a text; nil = the model's
	// Workers sample in parallel; 0 = 1.
	Workers int
}

const (
	defaultMemory  = 1 << 30
	defaultBatch   = 16
	defaultPrefill = 256
	mostRows       = 1 << 16 // keeps sizes within an int
)

// Engine writes texts with one model. It is safe for concurrent use; the model
// belongs to it while requests run.
type Engine struct {
	model  *gpu.Model
	config Config
	pages  int
	inbox  chan func(*scheduler)
	closed chan struct{} // when Close begins
	once   sync.Once
	wait   sync.WaitGroup
}

// New allocates the KV arena and starts the engine; Close ends it.
func New(m *gpu.Model, c Config) (*Engine, error) {
	c, count, err := c.fit(m.Config, gpu.KVType(m.Device()))
	if err != nil {
		return nil, err
	}
	runner, err := m.NewRunner(c.runner(count))
	if err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	e := &Engine{model: m, config: c, pages: count, inbox: make(chan func(*scheduler)), closed: make(chan struct{})}
	e.wait.Go(func() {
		e.loop(newScheduler(c, runner, count))
		runner.Free()
	})
	return e, nil
}

// Runner is the memory that an engine for a model of this shape would take on a device whose KV arena is of
// this type (gpu.KVType). Nothing is allocated.
func (c Config) Runner(m gpu.Config, kv gpu.DType) (gpu.RunnerConfig, error) {
	c, count, err := c.fit(m, kv)
	r := c.runner(count)
	r.KV = kv
	return r, err
}

func (c Config) runner(count int) gpu.RunnerConfig {
	return gpu.RunnerConfig{
		Pages: count, Rows: c.Batch + c.Prefill, Wanted: c.Batch, Sequences: c.Batch,
		Context: min(c.Context, count*gpu.PageSize), // a model may claim a context of any length
	}
}

// fit fills in defaults and turns memory into pages.
func (c Config) fit(m gpu.Config, kv gpu.DType) (Config, int, error) {
	if c.Batch < 0 || c.Prefill < 0 || c.Context < 0 || c.Memory < 0 {
		return c, 0, errors.New("start the engine: memory, batch, prefill and context must not be negative")
	}
	if c.Batch > mostRows || c.Prefill > mostRows {
		return c, 0, fmt.Errorf("start the engine: batch %d and prefill %d: at most %d of both", c.Batch, c.Prefill, mostRows)
	}
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	if c.Prefill == 0 {
		c.Prefill = defaultPrefill
	}
	if c.Context == 0 || c.Context > m.Context {
		c.Context = m.Context
	}
	if c.End == nil {
		c.End = m.EOS
	}
	c.Workers = max(c.Workers, 1)
	most := c.Batch * spanned(0, c.Context)
	count := int(min(int64(most), defaultMemory/m.PageBytes(kv)))
	if c.Memory > 0 {
		count = int(c.Memory / m.PageBytes(kv))
	}
	if count < 1 {
		return c, 0, fmt.Errorf("start the engine: %d bytes are less than one KV page of %d: %w", c.Memory, m.PageBytes(kv), ErrBudget)
	}
	return c, count, nil
}

// Context is the most tokens of a request, prompt and text together.
func (e *Engine) Context() int { return e.config.Context }

// Limit is the most tokens that one request may have, prompt and text together:
// what the context and the KV arena hold.
func (e *Engine) Limit() int { return min(e.config.Context, e.pages*gpu.PageSize) }

// Model is the model that writes. It may be changed (new weights) only while no
// request runs; Flush must follow.
func (e *Engine) Model() *gpu.Model { return e.model }

// Close ends running requests with ErrClosed and frees the arena.
func (e *Engine) Close() {
	e.once.Do(func() { close(e.closed) })
	e.wait.Wait()
}

// loop serves the inbox, and turns the scheduler while it has work.
func (e *Engine) loop(s *scheduler) {
	for {
		if s.idle() {
			select {
			case f := <-e.inbox:
				f(s)
			case <-e.closed:
				return
			}
			continue
		}
		select {
		case f := <-e.inbox:
			f(s)
		case <-e.closed:
			s.stop()
			return
		default:
			s.turn()
		}
	}
}

// do runs f on the engine's goroutine, between two steps.
func (e *Engine) do(f func(*scheduler)) error {
	done := make(chan struct{})
	select {
	case e.inbox <- func(s *scheduler) { f(s); close(done) }:
	case <-e.closed:
		return ErrClosed
	}
	<-done
	return nil
}

// Generate continues a prompt. It returns ErrInvalid, ErrBudget, ErrContext, ErrNotFinite,
// ErrClosed (wrapped), the cause of ctx's end, or the error of Emit; then what
// the request held in memory is free already.
func (e *Engine) Generate(ctx context.Context, r Request) (*Result, error) {
	if err := e.check(&r); err != nil {
		return nil, err
	}
	j := newJob(r, e)
	if err := e.do(func(s *scheduler) { s.queue = append(s.queue, j) }); err != nil {
		return nil, err
	}
	result, err := j.follow(ctx)
	if err == nil {
		return result, nil
	}
	if !j.isDone() {
		_ = e.do(func(s *scheduler) { s.cancel(j) }) // a closed engine has freed everything
	}
	if j.isDone() && j.result != nil {
		j.result.Release() // it was finished while it was being cancelled
	}
	return nil, err
}

// Rollouts are k texts for one prompt, the i-th with the seed
// RolloutSeed(Sampling.Seed, i). The prompt is computed once. Emit is not
// supported.
func (e *Engine) Rollouts(ctx context.Context, r Request, k int) ([]*Result, error) {
	out := make([]*Result, k)
	group, ctx := errgroup.WithContext(ctx)
	for i := range k {
		one := r
		one.Emit = nil
		one.Sampling.Seed = RolloutSeed(r.Sampling.Seed, i)
		group.Go(func() (err error) {
			out[i], err = e.Generate(ctx, one)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		for _, r := range out {
			if r != nil {
				r.Release()
			}
		}
		return nil, err
	}
	return out, nil
}

// RolloutSeed is the seed of the i-th of several texts for one prompt; the first
// is seed itself.
func RolloutSeed(seed uint64, i int) uint64 {
	if i == 0 {
		return seed
	}
	return mix(seed + uint64(i)) //nolint:gosec // a count
}

// check refuses what can never run.
func (e *Engine) check(r *Request) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, ok := e.model.Adapter(r.Adapter); r.Adapter != "" && !ok {
		return fmt.Errorf("%w: the model has no adapter %q", ErrInvalid, r.Adapter)
	}
	for _, id := range r.StopTokens {
		if id < 0 || int(id) >= e.model.Vocab {
			return fmt.Errorf("%w: stop token %d: the model has %d tokens", ErrInvalid, id, e.model.Vocab)
		}
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= e.model.Vocab {
			return fmt.Errorf("%w: prompt token %d is %d: the model has %d", ErrInvalid, i, id, e.model.Vocab)
		}
	}
	total := len(r.Prompt) + r.Max
	if r.Max > e.config.Context-len(r.Prompt) { // total may be beyond an int
		return fmt.Errorf("%d prompt and up to %d new tokens: the limit is %d together: %w", len(r.Prompt), r.Max, e.config.Context, ErrContext)
	}
	if need := spanned(0, total); need > e.pages {
		return fmt.Errorf("%d prompt and up to %d new tokens need %d KV pages of %d bytes; there are %d: %w",
			len(r.Prompt), r.Max, need, e.model.PageBytes(), e.pages, ErrBudget)
	}
	if g := r.Grammar; g != nil {
		if size := g.Vocabulary().Size(); size > e.model.Vocab || size > len(e.config.Tokens) {
			return fmt.Errorf("the grammar's vocabulary has %d tokens: the model has %d, and the engine knows the bytes of %d", size, e.model.Vocab, len(e.config.Tokens))
		}
		if least := g.Start().Least(); least > r.Max {
			return fmt.Errorf("up to %d new tokens: the shortest text of the grammar may need %d: %w", r.Max, least, ErrBudget)
		}
	}
	return nil
}

// Flush forgets all prefixes; it must follow a change of the weights. It returns
// ErrBusy while requests run.
func (e *Engine) Flush() error {
	var err error
	if closed := e.do(func(s *scheduler) {
		if !s.idle() {
			err = ErrBusy
			return
		}
		s.tree.reset()
	}); closed != nil {
		return closed
	}
	return err
}

// Stats are counts since the start, and what memory holds now.
type Stats struct {
	Pages, Free int   // of the KV arena; what is not free are running requests, held and cached prefixes
	Running     int   // requests
	Queued      int   // requests
	Steps       int64 // forward passes
	Rows        int64 // of all steps: tokens that were computed
	Prompt      int64 // prompt tokens of admitted requests
	Shared      int64 // of those: found in the tree
	Generated   int64 // sampled tokens
}

// Stats asks the engine.
func (e *Engine) Stats() (Stats, error) {
	var out Stats
	err := e.do(func(s *scheduler) {
		out = s.stats
		out.Pages, out.Free = len(s.pages.refs), len(s.pages.free)
		out.Running, out.Queued = len(s.running), len(s.queue)
	})
	return out, err
}

// releaser gives up a pin, once.
func (e *Engine) releaser(n *node) func() {
	return sync.OnceFunc(func() {
		_ = e.do(func(s *scheduler) { s.tree.unpin(n, false) }) // a closed engine has freed everything
	})
}

// stop ends all requests.
func (s *scheduler) stop() {
	for _, j := range s.queue {
		j.fail(ErrClosed)
	}
	for _, seq := range s.running {
		seq.fail(ErrClosed)
	}
}
