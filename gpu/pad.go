package gpu

// Replayer is a Device on which a step of a size that it knows costs less than one of a new size, as it
// replays the same operations. A Runner pads its steps to few sizes for it.
type Replayer interface {
	Device
	// Padded is the size that so many rows are padded to, less than PageSize more.
	Padded(rows int) int
}

// padding is what a Runner adds to steps on a Replayer: rows of a sequence of its own, which has one page behind
// all others and the last table. No other row reads what they write, and what they give is left alone.
type padding struct {
	to    func(rows int) int // nil: nothing is padded
	step  Step               // the last one, padded
	drawn []Drawn
}

// padded is n, or more, but at most limit.
func (p *padding) padded(n, limit int) int {
	if p.to == nil || n == 0 {
		return n
	}
	return max(n, min(p.to(n), limit))
}

// pad gives s with rows of padding. Its tables are those of s.
func (r *Runner) pad(s *Step) *Step {
	if r.padding.to == nil {
		return s
	}
	p, rows, wanted := &r.padding.step, len(s.Tokens), len(s.Wanted)
	more := r.padding.padded(rows, r.Rows) - rows
	p.Tokens = append(append(p.Tokens[:0], s.Tokens...), make([]int32, more)...)
	p.Positions = append(append(p.Positions[:0], s.Positions...), make([]int32, more)...) // each sees the first's key
	p.Slots, p.Sequences = append(p.Slots[:0], s.Slots...), append(p.Sequences[:0], s.Sequences...)
	for i := range more {
		p.Slots = append(p.Slots, int32(r.Pages*PageSize+i))  //nolint:gosec // page ids are int32
		p.Sequences = append(p.Sequences, int32(r.Sequences)) //nolint:gosec // tables of a step
	}
	if k := len(r.spans); k > 0 && r.spans[k-1].to == rows {
		r.spans[k-1].to += more // most steps have one adapter: they are then of one size, too
	}
	more = r.padding.padded(wanted, r.Wanted) - wanted
	p.Wanted = append(append(p.Wanted[:0], s.Wanted...), make([]int32, more)...) // the first row once more
	p.Scale = p.Scale[:0]
	for i := range wanted + more {
		p.Scale = append(p.Scale, 1)
		if i < len(s.Scale) {
			p.Scale[i] = s.Scale[i]
		}
	}
	if p.Draws = append(p.Draws[:0], s.Draws...); len(p.Draws) > 0 {
		p.Draws = append(p.Draws, make([]Draw, len(p.Wanted)-len(p.Draws))...)
	}
	p.Tables = s.Tables
	return p
}
