package generate

import (
	"fmt"
	"slices"

	"understudy/gpu"
)

// scheduler decides what each step computes. It belongs to the engine's
// goroutine.
type scheduler struct {
	config  Config
	runner  *gpu.Runner
	pages   *pages
	tree    *tree
	queue   []*job
	running []*sequence
	step    gpu.Step
	logits  gpu.Logits
	sampler *sampler
	stats   Stats
}

func newScheduler(c Config, runner *gpu.Runner, count int) *scheduler {
	p := newPages(count)
	return &scheduler{
		config: c, runner: runner, pages: p, tree: &tree{pages: p, roots: map[string]*node{}},
		sampler: newSampler(c),
	}
}

func (s *scheduler) idle() bool { return len(s.queue) == 0 && len(s.running) == 0 }

// admit starts queued requests, in order, while there are seats and pages.
func (s *scheduler) admit() {
	for len(s.queue) > 0 && len(s.running) < s.config.Batch {
		j := s.queue[0]
		seq, ok := s.start(j)
		if !ok {
			if len(s.running) > 0 {
				return // pages come back
			}
			j.fail(fmt.Errorf("request of %d prompt and up to %d new tokens: held prefixes leave %d KV pages of %d: %w",
				len(j.Prompt), j.Max, s.pages.available(), len(s.pages.refs), ErrBudget))
		} else {
			s.running = append(s.running, seq)
		}
		s.queue = s.queue[1:]
	}
}

// start puts a request into the tree, with pages for the whole of it.
func (s *scheduler) start(j *job) (*sequence, bool) {
	last := len(j.Prompt) - 1
	at := s.tree.match(s.tree.root(j.Adapter), j.Prompt[:last])
	shared := at.end()
	need := spanned(shared, last) + spanned(last, last+j.Max)
	if last%gpu.PageSize != 0 && shared < last {
		need-- // the tail goes on in the prefix's last page
	}
	at.pins++
	for s.pages.available() < need {
		if !s.tree.evict() {
			s.tree.unpin(at, false)
			return nil, false
		}
	}
	s.pages.reserved += need
	seq := &sequence{job: j, reserved: need, next: j.Prompt[last], text: newTranscript(s.config.Tokens, j.Stop)}
	seq.shared = shared
	parent := at
	if shared < last {
		var owned int
		parent, owned = s.tree.grow(at, slices.Clone(j.Prompt[shared:last]), false)
		seq.reserved -= owned
	}
	tail, owned := s.tree.grow(parent, nil, true)
	seq.reserved -= owned
	tail.pins++
	at.pins-- // the tail's existence keeps it now
	seq.tail = tail
	seq.buildTable()
	if j.Grammar != nil {
		seq.state = j.Grammar.Start()
	}
	s.stats.Prompt += int64(len(j.Prompt))
	s.stats.Shared += int64(shared)
	return seq, true
}

// finish takes seq out of the batch; drop frees what it has computed at once.
func (s *scheduler) finish(seq *sequence, hold, drop bool) {
	at := slices.Index(s.running, seq)
	s.running = slices.Delete(s.running, at, at+1)
	s.pages.reserved -= seq.reserved
	seq.reserved = 0
	for n := seq.tail; n != nil; n = n.parent {
		if n.filler == seq {
			n.filler = nil
		}
	}
	seq.tail.growing = false
	if seq.tail.ready > 0 {
		s.tree.claim(seq.tail)
	}
	if !hold {
		s.tree.unpin(seq.tail, drop)
	}
}

// cancel removes a request, wherever it is.
func (s *scheduler) cancel(j *job) {
	if at := slices.Index(s.queue, j); at >= 0 {
		s.queue = slices.Delete(s.queue, at, at+1)
		return
	}
	for _, seq := range s.running {
		if seq.job == j {
			s.finish(seq, false, true)
			return
		}
	}
}

// turn computes one step and gives each sequence its news.
func (s *scheduler) turn() {
	s.admit()
	if len(s.running) == 0 {
		return
	}
	rows, err := s.compose()
	if err == nil {
		err = s.runner.Step(&s.step, &s.logits)
	}
	if err != nil {
		for len(s.running) > 0 {
			seq := s.running[0]
			s.finish(seq, false, true)
			seq.fail(err)
		}
		s.tree.reset() // what the step has written is unknown
		return
	}
	s.stats.Steps++
	s.stats.Rows += int64(len(s.step.Tokens))
	for _, f := range rows.fills {
		f.node.ready += f.count
		if f.node.ready == len(f.node.tokens) {
			f.node.filler = nil
		}
	}
	s.deliver(rows.decoded)
}

// deliver samples for the decoded sequences, in parallel, and ends those that
// are done.
func (s *scheduler) deliver(decoded []*sequence) {
	drawn := s.sampler.draw(decoded, &s.logits)
	for i, seq := range decoded {
		seq.tail.tokens = append(seq.tail.tokens, seq.next)
		seq.tail.ready++
		d := drawn[i]
		switch {
		case d.err != nil:
			s.finish(seq, false, true)
			seq.fail(d.err)
			continue
		case d.ended: // the grammar allows nothing more
			s.end(seq, FinishStop)
			continue
		}
		s.stats.Generated++
		seq.tokens = append(seq.tokens, d.token)
		seq.next, seq.state = d.token.ID, d.state
		s.write(seq, d)
	}
}

// write adds a sampled token to the text.
func (s *scheduler) write(seq *sequence, d drawn) {
	isEnd := seq.ends(s.config.End, d.token.ID)
	text, stopped := "", false
	if !isEnd {
		text, stopped = seq.text.write(d.token.ID)
	}
	seq.emit(Delta{Token: &d.token, Text: text})
	switch {
	case isEnd, stopped, seq.Grammar != nil && d.state.Final():
		s.end(seq, FinishStop)
	case len(seq.tokens) == seq.Max:
		s.end(seq, FinishLength)
	}
}

func (s *scheduler) end(seq *sequence, reason Finish) {
	if rest := seq.text.close(); rest != "" {
		seq.emit(Delta{Text: rest})
	}
	s.finish(seq, seq.Hold, false)
	r := seq.finished(reason)
	if seq.Hold {
		tail := seq.tail
		r.release = seq.engine.releaser(tail)
	}
	seq.done(r)
}
