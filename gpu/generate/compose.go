package generate

import (
	"cmp"
	"fmt"
	"slices"

	"understudy/gpu"
)

// composed is what a step's rows are for.
type composed struct {
	decoded []*sequence // in the order of the wanted rows
	fills   []fill
}

// fill is prefill of a node: its next count tokens.
type fill struct {
	node  *node
	count int
}

// compose builds the next step: a row for each sequence that decodes, then
// prefill in the rows that are left. Rows of one adapter stand together.
func (s *scheduler) compose() (composed, error) {
	st := &s.step
	*st = gpu.Step{
		Tokens: st.Tokens[:0], Positions: st.Positions[:0], Slots: st.Slots[:0], Sequences: st.Sequences[:0],
		Tables: st.Tables[:0], Wanted: st.Wanted[:0], Scale: st.Scale[:0], Draws: st.Draws[:0], Adapters: st.Adapters[:0],
	}
	room := s.config.Batch + s.config.Prefill
	for _, seq := range s.running {
		if seq.decoding() {
			room--
		}
	}
	order := slices.Clone(s.running)
	slices.SortStableFunc(order, func(a, b *sequence) int { return cmp.Compare(a.Adapter, b.Adapter) })
	var out composed
	for _, seq := range order {
		from := len(st.Tokens)
		if err := s.rowsOf(seq, &room, &out); err != nil {
			return out, err
		}
		s.adapterRows(seq.Adapter, from)
	}
	s.want(&out)
	return out, nil
}

// want asks for the logits of the decoded rows or, where that is enough and the device can, for tokens that it
// draws: those rows come first.
func (s *scheduler) want(out *composed) {
	if s.runner.Draws() {
		var drawn, others []*sequence
		for _, seq := range out.decoded {
			if seq.needsLogits() {
				others = append(others, seq)
				continue
			}
			drawn = append(drawn, seq)
			s.step.Draws = append(s.step.Draws, seq.draw())
		}
		out.decoded = append(drawn, others...)
	}
	for _, seq := range out.decoded {
		s.step.Wanted = append(s.step.Wanted, seq.row)
		s.step.Scale = append(s.step.Scale, seq.Sampling.Scale())
	}
}

// rowsOf adds the rows of one sequence.
func (s *scheduler) rowsOf(seq *sequence, room *int, out *composed) error {
	path := seq.prefix()
	for _, n := range path {
		if n.filler == nil {
			n.filler = seq
		}
		if n.filler != seq || *room == 0 {
			return nil // another computes it, or a later step does
		}
		if err := s.copyFirst(n); err != nil {
			return err
		}
		count := min(*room, len(n.tokens)-n.ready)
		for i := range count {
			s.row(seq, n.tokens[n.ready+i], n.start+n.ready+i)
		}
		*room -= count
		out.fills = append(out.fills, fill{node: n, count: count})
		if n.ready+count < len(n.tokens) {
			return nil
		}
	}
	if len(path) > 0 {
		if *room == 0 || seq.tail.copyFrom >= 0 {
			return nil // the page to copy is written in this step
		}
		*room--
	}
	return s.decodeRow(seq, out)
}

// copyFirst makes n's copy of the page that it goes on in.
func (s *scheduler) copyFirst(n *node) error {
	if n.copyFrom < 0 {
		return nil
	}
	if err := s.runner.CopyPage(n.pages[0], n.copyFrom); err != nil {
		return fmt.Errorf("share a prefix: %w", err)
	}
	n.copyFrom = -1
	return nil
}

func (s *scheduler) decodeRow(seq *sequence, out *composed) error {
	n, at := seq.tail, seq.position()
	if err := s.copyFirst(n); err != nil {
		return err
	}
	if page := at / gpu.PageSize; page-n.start/gpu.PageSize >= len(n.pages) {
		id := s.pages.take()
		seq.reserved--
		n.pages = append(n.pages, id)
		s.pages.claimed[id] = gpu.PageSize // a growing node owns the rest of its page
		seq.table[page] = id
	}
	seq.row = int32(len(s.step.Tokens)) //nolint:gosec // rows of a step
	s.row(seq, seq.next, at)
	out.decoded = append(out.decoded, seq)
	return nil
}

// row adds one row; the first of a sequence brings its table along.
func (s *scheduler) row(seq *sequence, token int32, position int) {
	st := &s.step
	if seq.turn != s.stats.Steps+1 {
		seq.turn = s.stats.Steps + 1
		seq.index = int32(len(st.Tables)) //nolint:gosec // sequences of a step
		st.Tables = append(st.Tables, seq.table)
	}
	st.Tokens = append(st.Tokens, token)
	st.Positions = append(st.Positions, int32(position)) //nolint:gosec // below the context length
	st.Slots = append(st.Slots, seq.table[position/gpu.PageSize]*gpu.PageSize+int32(position%gpu.PageSize))
	st.Sequences = append(st.Sequences, seq.index)
}

// adapterRows says that the rows from..now go through an adapter.
func (s *scheduler) adapterRows(name string, from int) {
	st := &s.step
	to := len(st.Tokens)
	if name == "" || from == to {
		return
	}
	if k := len(st.Adapters); k > 0 && st.Adapters[k-1].Adapter == name && st.Adapters[k-1].To == from {
		st.Adapters[k-1].To = to
		return
	}
	st.Adapters = append(st.Adapters, gpu.Span{Adapter: name, From: from, To: to})
}
