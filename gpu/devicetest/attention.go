package devicetest

import (
	"slices"

	"understudy/gpu"
)

// packed gives the Starts of sequences of these lengths.
func packed(lengths ...int) []int32 {
	var starts []int32
	for _, n := range lengths {
		starts = append(starts, slices.Repeat([]int32{int32(len(starts))}, n)...)
	}
	return starts
}

type attentionCase struct {
	heads   gpu.Heads
	lengths []int
	reason  string
}

func attentionCases() []attentionCase {
	return []attentionCase{
		{gpu.Heads{H: 1, G: 1, D: 16}, []int{1}, "a lone token"},
		{gpu.Heads{H: 2, G: 1, D: 8}, []int{5, 1, 17}, "heads narrower than a register"},
		{gpu.Heads{H: 4, G: 2, D: 20}, []int{33, 16}, "heads of no whole register"},
		{gpu.Heads{H: 9, G: 3, D: 64}, []int{40, 15, 16, 17}, "lengths around the page size"},
		{gpu.Heads{H: 2, G: 2, D: 48}, []int{140}, "a sequence of several tasks, heads of a half tile"},
		{gpu.Heads{H: 4, G: 2, D: 32}, []int{70, 33}, "groups of two heads, pages in odd numbers"},
		{gpu.Heads{H: 8, G: 2, D: 16}, []int{65, 48}, "groups of four heads"},
		{gpu.Heads{H: 5, G: 1, D: 32}, []int{50}, "a group of more heads than attend to pages at a time"},
		{gpu.Heads{H: 3, G: 1, D: 128}, []int{18, 3}, "the heads of most models"},
	}
}

// attentionBuffers are random inputs and room for the outputs of T tokens.
type attentionBuffers struct{ q, k, v, out, lse, starts Buffers }

func newAttentionBuffers(p *Pair, c attentionCase) attentionBuffers {
	starts := packed(c.lengths...)
	n, h := len(starts), c.heads
	return attentionBuffers{
		q: p.Activations(n*h.H*h.D, 1), k: p.Activations(n*h.G*h.D, 1), v: p.Activations(n*h.G*h.D, 1),
		out: p.Activations(n*h.H*h.D, 1), lse: p.Random(n*h.H, 1), starts: p.Ints(starts...),
	}
}

func (b attentionBuffers) call(h gpu.Heads, of func(Buffers) gpu.Buffer) gpu.Attention {
	return gpu.Attention{
		Heads: h, Scale: 0.4, Out: of(b.out), LSE: of(b.lse),
		Q: of(b.q), K: of(b.k), V: of(b.v), Starts: of(b.starts),
	}
}

func attend(p *Pair) {
	for _, c := range attentionCases() {
		b := newAttentionBuffers(p, c)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Attend(b.call(c.heads, of)) })
		p.Attended(c.reason+": Out", b.out, 5e-6)
		p.Equal(c.reason+": LSE", b.lse, 5e-6)
		dout, dq := p.Activations(b.q.Ref.Len, 1), p.Activations(b.q.Ref.Len, 1)
		dk, dv := p.Activations(b.k.Ref.Len, 1), p.Activations(b.v.Ref.Len, 1)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
			d.AttendBackward(gpu.AttentionGrad{
				Attention: b.call(c.heads, of), DOut: of(dout), DQ: of(dq), DK: of(dk), DV: of(dv),
			})
		})
		p.Attended(c.reason+": DQ", dq, 2e-5)
		p.Attended(c.reason+": DK", dk, 2e-5)
		p.Attended(c.reason+": DV", dv, 2e-5)
	}
}

// Attention over pages gives the bits of attention over packed rows, for any cut of the rows
// into steps and with sequences that share their first pages; stale NaN in unused slots does
// no harm.
func attendPagedEqualsAttend(p *Pair) {
	for _, c := range attentionCases() {
		b := newAttentionBuffers(p, c)
		p.Device.Attend(b.call(c.heads, func(b Buffers) gpu.Buffer { return b.Dev }))
		want := p.Download(b.out.Dev)
		a := newArena(p, b, c)
		for _, rows := range a.steps(p) {
			got := a.attend(p, b, c.heads, rows)
			width := c.heads.H * c.heads.D
			for i, r := range rows {
				if !slices.Equal(got[i*width:(i+1)*width], want[int(r)*width:(int(r)+1)*width]) {
					p.T.Fatalf("%s: row %d of a step of %d differs from its training row", c.reason, r, len(rows))
				}
			}
		}
	}
}

// Sequences that share pages attend as if each had its own.
func attendPagedSharedPrefix(p *Pair) {
	h := gpu.Heads{H: 6, G: 2, D: 32}
	tables := []int32{3, 1, 4, 0, 3, 1, 0, 0, 3, 5, 4, 0, 2, 1, 4, 0}
	sequences, positions := []int32{0, 1, 2, 0, 3, 1, 1}, []int32{40, 31, 33, 47, 32, 16, 2}
	k, v := p.Arena(nan(), 6*16*h.G*h.D), p.Arena(nan(), 6*16*h.G*h.D)
	newK, newV, slots := p.Activations(6*16*h.G*h.D, 1), p.Activations(6*16*h.G*h.D, 1), make([]int32, 6*16)
	for i := range slots {
		slots[i] = int32(i)
	}
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
		d.StoreKV(gpu.KVRows{Heads: h, K: of(k), V: of(v), NewK: of(newK), NewV: of(newV), Slots: of(p.Ints(slots...))})
	})
	q, out, alone := p.Activations(7*h.H*h.D, 1), p.Activations(7*h.H*h.D, 1), p.Activations(7*h.H*h.D, 1)
	step := func(of func(Buffers) gpu.Buffer) gpu.PagedAttention {
		return gpu.PagedAttention{
			Heads: h, Scale: 0.3, Out: of(out), Q: of(q), K: of(k), V: of(v), P: 4,
			Tables: of(p.Ints(tables...)), Sequences: of(p.Ints(sequences...)), Positions: of(p.Ints(positions...)),
		}
	}
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.AttendPaged(step(of)) })
	p.Attended("Out", out, 3e-6)
	for r := range sequences {
		row := step(func(b Buffers) gpu.Buffer { return b.Dev })
		row.Out, row.Q = alone.Dev.Slice(r*h.H*h.D, (r+1)*h.H*h.D), row.Q.Slice(r*h.H*h.D, (r+1)*h.H*h.D)
		row.Sequences, row.Positions = row.Sequences.Slice(r, r+1), row.Positions.Slice(r, r+1)
		p.Device.AttendPaged(row)
	}
	if !slices.Equal(p.Download(alone.Dev), p.Download(out.Dev)) {
		p.T.Error("rows alone differ from the rows in a batch that shares pages")
	}
}

// arena holds the keys and values of packed sequences in shuffled pages.
type arena struct {
	k, v, tables Buffers
	pages        int       // a row of tables
	sequence     []int32   // of a token
	position     []int32   // of a token
	rows         [][]int32 // the tokens of a sequence
}

func newArena(p *Pair, b attentionBuffers, c attentionCase) arena {
	a, pages := arena{}, 0
	for _, n := range c.lengths {
		a.pages = max(a.pages, (n+gpu.PageSize-1)/gpu.PageSize)
		pages += (n + gpu.PageSize - 1) / gpu.PageSize
	}
	ids, tables, slots := p.rand.Perm(pages), make([]int32, len(c.lengths)*a.pages), []int32(nil)
	for s, n := range c.lengths {
		var rows []int32
		for i := range n {
			if i%gpu.PageSize == 0 {
				tables[s*a.pages+i/gpu.PageSize], ids = int32(ids[0]), ids[1:]
			}
			slots = append(slots, tables[s*a.pages+i/gpu.PageSize]*gpu.PageSize+int32(i%gpu.PageSize))
			rows = append(rows, int32(len(a.sequence)))
			a.sequence, a.position = append(a.sequence, int32(s)), append(a.position, int32(i))
		}
		a.rows = append(a.rows, rows)
	}
	width := c.heads.G * c.heads.D
	a.k, a.v, a.tables = p.Arena(nan(), pages*gpu.PageSize*width), p.Arena(nan(), pages*gpu.PageSize*width), p.Ints(tables...)
	p.Device.StoreKV(gpu.KVRows{
		Heads: c.heads, K: a.k.Dev, V: a.v.Dev, NewK: b.k.Dev, NewV: b.v.Dev, Slots: p.Ints(slots...).Dev,
	})
	return a
}

func nan() float32 {
	zero := float32(0)
	return zero / zero
}

// steps are cuts of all tokens into steps: everything, the last token of each sequence, and
// single tokens in any order.
func (a arena) steps(p *Pair) [][]int32 {
	var all, last []int32
	for _, rows := range a.rows {
		all, last = append(all, rows...), append(last, rows[len(rows)-1])
	}
	p.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return [][]int32{all, last, all[:1], all[:min(7, len(all))], all[len(all)/2:]}
}

// attend gives Out of these tokens.
func (a arena) attend(p *Pair, b attentionBuffers, h gpu.Heads, rows []int32) []float32 {
	var sequences, positions []int32
	for _, r := range rows {
		sequences, positions = append(sequences, a.sequence[r]), append(positions, a.position[r])
	}
	q, out := p.Activations(len(rows)*h.H*h.D, 1), p.Activations(len(rows)*h.H*h.D, 1)
	p.Device.Gather(q.Dev, b.q.Dev, p.Ints(rows...).Dev)
	p.Device.AttendPaged(gpu.PagedAttention{
		Heads: h, Scale: 0.4, Out: out.Dev, Q: q.Dev, K: a.k.Dev, V: a.v.Dev, P: a.pages,
		Tables: a.tables.Dev, Sequences: p.Ints(sequences...).Dev, Positions: p.Ints(positions...).Dev,
	})
	return p.Download(out.Dev)
}
