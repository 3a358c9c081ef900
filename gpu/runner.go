package gpu

import (
	"fmt"
)

// Runner is the memory of rollouts on one model: the KV arena and the
// activations of one step. Which page belongs to whom is the caller's business.
type Runner struct {
	RunnerConfig
	forward
	memory []Buffer
	rank   int // greatest rank of an adapter that fits

	keys, values []Buffer // (L) of (S,G,D)
	acts         layerActs
	final        headActs
	loss         TokenLoss

	tokens, at, slots, sequences, tables, wanted Buffer
	tableRows                                    []int32 // (B,P) as uploaded
	scale                                        []float32
	written                                      []uint64 // (S) the last step that wrote a slot
	steps                                        uint64
	padding                                      padding
}

// pagesPerSequence is the pages that the longest sequence takes.
func (c RunnerConfig) pagesPerSequence() int { return (c.Context + PageSize - 1) / PageSize }

// PageBytes is what one page of the KV arena takes, over all layers.
func (c Config) PageBytes(kv DType) int64 {
	return int64(PageSize) * int64(c.Layers) * 2 * int64(c.G*c.D) * int64(kv.Size())
}

// PageBytes is what one page takes on the model's device.
func (m *Model) PageBytes() int64 { return m.Config.PageBytes(KVType(m.dev)) }

// NewRunner allocates all that steps need.
func (m *Model) NewRunner(c RunnerConfig) (*Runner, error) {
	if c.Pages < 1 || c.Rows < 1 || c.Wanted < 1 || c.Sequences < 1 || c.Context < 1 || c.Context > m.Context {
		return nil, fmt.Errorf("new runner: pages, rows, wanted, sequences and context must be positive, and context at most the model's %d", m.Context)
	}
	c.KV, c.Activations = KVType(m.dev), ActivationType(m.dev)
	r := &Runner{RunnerConfig: c, forward: forward{Model: m}, rank: m.maxRank(), written: make([]uint64, c.Pages*PageSize)}
	floats, ints, err := r.plan().allocate(m.dev, fmt.Sprintf("rollouts (%d KV pages of %d tokens, %d rows)", c.Pages, PageSize, c.Rows))
	if err != nil {
		return nil, err
	}
	r.memory = []Buffer{floats, ints}
	m.dev.Upload(r.rope, m.ropeTable(c.Context))
	if d, ok := m.dev.(Replayer); ok {
		r.padding.to = d.Padded
		m.dev.UploadInts(r.tables.Slice(c.Sequences*c.pagesPerSequence(), r.tables.Len), []int32{int32(c.Pages)}) //nolint:gosec // page ids are int32
	}
	return r, m.dev.Sync()
}

// plan lays out the arena and the activations of a step. The last page and table are those of padding.
func (r *Runner) plan() *plan {
	p, m, c := &plan{}, r.Model, r.RunnerConfig
	r.keys, r.values = make([]Buffer, m.Layers), make([]Buffer, m.Layers)
	for l := range m.Layers {
		p.addOf(c.KV, (c.Pages+1)*PageSize*m.G*m.D, &r.keys[l], &r.values[l])
	}
	p.add(c.Rows, m.layerSizes(&r.acts, c.Activations)...)
	p.add(c.Rows, rowBuffer{&r.branch, m.Width, F32}, rowBuffer{&r.low, r.rank, F32})
	if r.rank > 0 {
		p.add(c.Rows, rowBuffer{&r.wide, m.maxN(), F32})
	}
	p.add(c.Wanted, m.headSizes(&r.final, c.Activations)...)
	p.add(c.Wanted, rowBuffer{&r.loss.Logits, m.Vocab, F32}, rowBuffer{&r.loss.Scale, 1, F32}, rowBuffer{&r.loss.LSE, 1, F32})
	p.add(c.Context, rowBuffer{&r.rope, m.D, F32})
	p.addInts(c.Rows, &r.tokens, &r.at, &r.slots, &r.sequences)
	p.addInts((c.Sequences+1)*c.pagesPerSequence(), &r.tables)
	p.addInts(c.Wanted, &r.wanted)
	return p
}

// Free gives the memory back.
func (r *Runner) Free() {
	for _, b := range r.memory {
		r.dev.Free(b)
	}
}

// Bytes is what the runner's memory takes, without the model's weights.
func (r *Runner) Bytes() int64 {
	var n int64
	for _, b := range r.memory {
		n += b.Memory.Bytes()
	}
	return n
}

// CopyPage copies the keys and values of a page, for a sequence that goes on
// within a page it shares.
func (r *Runner) CopyPage(dst, src int32) error {
	for _, p := range []int32{dst, src} {
		if p < 0 || int(p) >= r.Pages {
			return fmt.Errorf("copy page: page %d of %d", p, r.Pages)
		}
	}
	size := PageSize * r.G * r.D
	for l := range r.Layers {
		for _, b := range []Buffer{r.keys[l], r.values[l]} {
			r.dev.Copy(b.Slice(int(dst)*size, int(dst+1)*size), b.Slice(int(src)*size, int(src+1)*size))
		}
	}
	return nil
}

// Step runs the rows and writes the logits of the wanted ones to out. A step
// that is refused has written nothing.
func (r *Runner) Step(s *Step, out *Logits) error {
	spans, err := r.check(s)
	if err != nil {
		return fmt.Errorf("step: %w", err)
	}
	r.spans = spans
	p := r.pad(s)
	r.upload(p)
	rows := len(p.Tokens)
	a := r.acts.rows(r.Config, rows)
	r.dev.Embed(a.x, r.w.embed, r.tokens.Slice(0, rows))
	for l := range r.Layers {
		r.queryKeyValue(l, &a)
		r.dev.StoreKV(KVRows{
			Heads: r.Heads, K: r.keys[l], V: r.values[l], NewK: a.kr, NewV: a.v, Slots: r.slots.Slice(0, rows),
		})
		r.dev.AttendPaged(r.attention(l, &a))
		r.outputAndGates(l, &a)
		if f, ok := r.dev.(Fetcher); ok && l+1 < r.Layers {
			f.FetchPages(r.attention(l+1, &a))
		}
		r.down(l, &a, a.x)
	}
	return r.logits(a.x, s, p, out)
}

// attention is that of a layer, for the rows of the step.
func (r *Runner) attention(l int, a *layerActs) PagedAttention {
	return PagedAttention{
		Heads: r.Heads, Scale: r.attentionScale(), Out: a.att, Q: a.qr, K: r.keys[l], V: r.values[l],
		Tables: r.tables, P: r.pagesPerSequence(), Sequences: r.sequences.Slice(0, r.positions.Len), Positions: r.positions,
	}
}

// Draws says whether the device draws tokens (Step.Draws).
func (r *Runner) Draws() bool {
	_, ok := r.dev.(Sampler)
	return ok
}

// logits computes the logits of the wanted rows of x (R,C), of padding too, draws from the first of them
// and downloads the others.
func (r *Runner) logits(x Buffer, s, padded *Step, out *Logits) error {
	drawn, wanted, n := len(s.Draws), len(s.Wanted), len(padded.Wanted)
	out.V = r.Vocab
	out.Values = grow(out.Values, (wanted-drawn)*r.Vocab)
	out.LSE = grow(out.LSE, wanted-drawn)
	out.Drawn = out.Drawn[:0]
	if wanted == 0 {
		return r.dev.Sync()
	}
	f := headActs{r.final.x.Slice(0, n*r.Width), r.final.rstd.Slice(0, n), r.final.n.Slice(0, n*r.Width)}
	r.finalNorm(&f, x, r.wanted.Slice(0, n))
	t := r.loss.rows(r.Vocab, 0, n)
	r.dev.MatMul(t.Logits, f.n, r.head)
	r.dev.LogProbs(t)
	if drawn > 0 {
		all := grow(r.padding.drawn, len(padded.Draws))
		if err := r.dev.(Sampler).Sample(r.loss.rows(r.Vocab, 0, len(all)), padded.Draws, all); err != nil {
			return fmt.Errorf("step: %w", err)
		}
		r.padding.drawn, out.Drawn = all, append(out.Drawn, all[:drawn]...)
	}
	if drawn == wanted {
		return nil
	}
	t = r.loss.rows(r.Vocab, drawn, wanted)
	if err := r.dev.Download(out.Values, t.Logits); err != nil {
		return fmt.Errorf("step: %w", err)
	}
	if err := r.dev.Download(out.LSE, t.LSE); err != nil {
		return fmt.Errorf("step: %w", err)
	}
	return nil
}

// rows is rows from..to-1 of what is known of all.
func (t TokenLoss) rows(vocab, from, to int) TokenLoss {
	return TokenLoss{Logits: t.Logits.Slice(from*vocab, to*vocab), Scale: t.Scale.Slice(from, to), LSE: t.LSE.Slice(from, to)}
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// upload moves a step's indices to the device.
func (r *Runner) upload(s *Step) {
	rows := len(s.Tokens)
	r.positions = r.at.Slice(0, rows)
	r.dev.UploadInts(r.tokens, s.Tokens)
	r.dev.UploadInts(r.at, s.Positions)
	r.dev.UploadInts(r.slots, s.Slots)
	r.dev.UploadInts(r.sequences, s.Sequences)
	r.dev.UploadInts(r.wanted, s.Wanted)
	pages := r.pagesPerSequence()
	if r.tableRows == nil {
		r.tableRows = make([]int32, r.Sequences*pages)
		r.scale = make([]float32, r.Wanted)
	}
	for i, table := range s.Tables {
		copy(r.tableRows[i*pages:(i+1)*pages], table)
	}
	r.dev.UploadInts(r.tables, r.tableRows[:r.padding.padded(len(s.Tables), r.Sequences)*pages])
	for i := range s.Wanted {
		r.scale[i] = 1
		if s.Scale != nil {
			r.scale[i] = s.Scale[i]
		}
	}
	r.dev.Upload(r.loss.Scale, r.scale[:len(s.Wanted)])
}

// check refuses a step that would read or write outside of its memory.
func (r *Runner) check(s *Step) ([]adapterRows, error) {
	rows := len(s.Tokens)
	switch {
	case rows == 0 || rows > r.Rows:
		return nil, fmt.Errorf("%d rows: this runner takes 1 to %d", rows, r.Rows)
	case len(s.Positions) != rows || len(s.Slots) != rows || len(s.Sequences) != rows:
		return nil, fmt.Errorf("%d tokens need as many positions (%d), slots (%d) and sequences (%d)", rows, len(s.Positions), len(s.Slots), len(s.Sequences))
	case len(s.Wanted) > r.Wanted:
		return nil, fmt.Errorf("%d wanted rows: this runner takes %d", len(s.Wanted), r.Wanted)
	case s.Scale != nil && len(s.Scale) != len(s.Wanted):
		return nil, fmt.Errorf("%d scales for %d wanted rows", len(s.Scale), len(s.Wanted))
	case len(s.Draws) > len(s.Wanted):
		return nil, fmt.Errorf("%d draws for %d wanted rows", len(s.Draws), len(s.Wanted))
	case len(s.Draws) > 0 && !r.Draws():
		return nil, fmt.Errorf("%d draws: %s draws no tokens", len(s.Draws), r.dev.Name())
	case len(s.Tables) > r.Sequences:
		return nil, fmt.Errorf("%d sequences: this runner takes %d", len(s.Tables), r.Sequences)
	}
	for i, table := range s.Tables {
		if len(table) > r.pagesPerSequence() {
			return nil, fmt.Errorf("sequence %d has %d pages: this runner takes %d tokens a sequence", i, len(table), r.Context)
		}
		for _, page := range table {
			if page < 0 || int(page) >= r.Pages {
				return nil, fmt.Errorf("sequence %d names page %d of %d", i, page, r.Pages)
			}
		}
	}
	for i, row := range s.Wanted {
		if row < 0 || int(row) >= rows {
			return nil, fmt.Errorf("wanted row %d of %d", row, rows)
		}
		if s.Scale != nil && !(s.Scale[i] > 0) {
			return nil, fmt.Errorf("scale %v of wanted row %d: it must be positive", s.Scale[i], row)
		}
	}
	r.steps++
	for i := range rows {
		if err := r.checkRow(s, i); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	return r.adapterRows(s.Adapters, rows, r.rank)
}

func (r *Runner) checkRow(s *Step, i int) error {
	token, position, sequence := s.Tokens[i], s.Positions[i], s.Sequences[i]
	switch {
	case token < 0 || int(token) >= r.Vocab:
		return fmt.Errorf("token %d: the model has %d", token, r.Vocab)
	case position < 0 || int(position) >= r.Context:
		return fmt.Errorf("position %d: this runner takes %d tokens a sequence", position, r.Context)
	case sequence < 0 || int(sequence) >= len(s.Tables):
		return fmt.Errorf("sequence %d of %d", sequence, len(s.Tables))
	}
	table, page := s.Tables[sequence], int(position)/PageSize
	if page >= len(table) {
		return fmt.Errorf("position %d lies beyond the %d pages of sequence %d", position, len(table), sequence)
	}
	if slot := table[page]*PageSize + position%PageSize; s.Slots[i] != slot {
		return fmt.Errorf("slot %d: position %d of sequence %d lies in slot %d", s.Slots[i], position, sequence, slot)
	}
	if r.written[s.Slots[i]] == r.steps {
		return fmt.Errorf("slot %d is written twice", s.Slots[i])
	}
	r.written[s.Slots[i]] = r.steps
	return nil
}
