package generate

import (
	"context"
	"sync"
)

// job is a request on its way: the engine writes its news, Generate reads them.
// News wait in memory, so that a slow reader holds nobody up.
type job struct {
	Request
	engine *Engine
	shared int

	mu     sync.Mutex
	news   []Delta
	wake   chan struct{} // holds one: there is news
	ended  chan struct{} // closed with result or err set
	result *Result
	err    error
}

func newJob(r Request, e *Engine) *job {
	return &job{Request: r, engine: e, wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (j *job) emit(d Delta) {
	if j.Emit == nil {
		return
	}
	j.mu.Lock()
	j.news = append(j.news, d)
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *job) done(r *Result) {
	j.result = r
	close(j.ended)
}

func (j *job) fail(err error) {
	j.err = err
	close(j.ended)
}

func (j *job) isDone() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// follow hands news to Emit until the request has ended.
func (j *job) follow(ctx context.Context) (*Result, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-j.wake:
			if err := j.hand(); err != nil {
				return nil, err
			}
		case <-j.ended:
			if err := j.hand(); err != nil {
				return nil, err
			}
			return j.result, j.err
		}
	}
}

func (j *job) hand() error {
	if j.Emit == nil {
		return nil
	}
	j.mu.Lock()
	news := j.news
	j.news = nil
	j.mu.Unlock()
	for _, d := range news {
		if err := j.Emit(d); err != nil {
			return err
		}
	}
	return nil
}
