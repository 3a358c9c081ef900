package devicetest

import (
	"math"
	"slices"
	"testing"

	"understudy/gpu"
)

// Unseen runs tests of what every device promises of attention: what a row may not see does not touch it, not
// even as NaN.
func Unseen(t *testing.T, pair func(t *testing.T) *Pair) {
	t.Helper()
	for name, run := range map[string]func(p *Pair){
		"Attend sees no further": attendSeesNoFurther, "gradients of Attend see no earlier": gradientsSeeNoEarlier, "an infinite value is seen": infinityIsSeen,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(pair(t))
		})
	}
}

// Rows have the same bits whatever the
// last key and value of their sequence are, and the gradients of keys whatever the first query is.
func attendSeesNoFurther(p *Pair) {
	for _, c := range attentionCases() {
		b := newAttentionBuffers(p, c)
		before := unseenResults(p, b, c)
		ends := 0
		for _, n := range c.lengths {
			spoil(p, b.k, ends+n-1, c.heads.G*c.heads.D)
			spoil(p, b.v, ends+n-1, c.heads.G*c.heads.D)
			ends += n
		}
		after := unseenResults(p, b, c)
		rows := before.keep(c, func(position, n int) bool { return position < n-1 })
		p.same(c.reason+": Out", before.out, after.out, rows, c.heads.H*c.heads.D)
		p.same(c.reason+": LSE", before.lse, after.lse, rows, c.heads.H)
		p.same(c.reason+": DQ", before.dq, after.dq, rows, c.heads.H*c.heads.D)
		for i, step := range after.steps {
			p.same(c.reason+": rows over the arena", before.rows[i], after.rows[i], positionsOf(step, rows), c.heads.H*c.heads.D)
		}
	}
}

func gradientsSeeNoEarlier(p *Pair) {
	for _, c := range attentionCases() {
		b := newAttentionBuffers(p, c)
		dout := p.Activations(b.q.Ref.Len, 1)
		_, dk, dv := attentionGradients(p, b, dout, c.heads)
		first := 0
		for _, n := range c.lengths {
			spoil(p, b.q, first, c.heads.H*c.heads.D)
			spoil(p, dout, first, c.heads.H*c.heads.D)
			first += n
		}
		_, dkAfter, dvAfter := attentionGradients(p, b, dout, c.heads)
		rows := unseen{}.keep(c, func(position, _ int) bool { return position > 0 })
		p.same(c.reason+": DK", dk, dkAfter, rows, c.heads.G*c.heads.D)
		p.same(c.reason+": DV", dv, dvAfter, rows, c.heads.G*c.heads.D)
	}
}

// An infinite value reaches every row that sees it, in its own column and no other.
func infinityIsSeen(p *Pair) {
	c := attentionCase{heads: gpu.Heads{H: 2, G: 1, D: 24}, lengths: []int{40}}
	const row, column = 21, 5
	b, values := newAttentionBuffers(p, c), make([]float32, 40*24)
	for i := range values {
		values[i] = float32(i % 3)
	}
	values[row*24+column] = float32(math.Inf(1))
	b.v = p.ActivationsOf(values)
	p.Device.Attend(b.call(c.heads, func(b Buffers) gpu.Buffer { return b.Dev }))
	for i, x := range p.Download(b.out.Dev) {
		finite, want := !math.IsInf(float64(x), 0) && !math.IsNaN(float64(x)), i/48 < row || i%24 != column
		if finite != want {
			p.T.Fatalf("row %d, column %d is %v", i/48, i%24, x)
		}
	}
}

// spoil makes a row NaN.
func spoil(p *Pair, b Buffers, row, width int) {
	x := slices.Repeat([]float32{nan()}, width)
	p.Device.Upload(b.Dev.Slice(row*width, (row+1)*width), x)
}

// unseen is what attention gives on the device.
type unseen struct {
	out, lse, dq []float32
	steps        [][]int32   // of rows over the arena
	rows         [][]float32 // and what those got
}

// keep are the rows of which f says so, by their position in a sequence of n.
func (unseen) keep(c attentionCase, f func(position, n int) bool) map[int]bool {
	rows, first := map[int]bool{}, 0
	for _, n := range c.lengths {
		for i := range n {
			rows[first+i] = f(i, n)
		}
		first += n
	}
	return rows
}

func unseenResults(p *Pair, b attentionBuffers, c attentionCase) (u unseen) {
	p.Device.Attend(b.call(c.heads, func(b Buffers) gpu.Buffer { return b.Dev }))
	u.out, u.lse = p.Download(b.out.Dev), p.Download(b.lse.Dev)
	u.dq, _, _ = attentionGradients(p, b, b.q, c.heads)
	a := newArena(p, b, c)
	all := make([]int32, len(a.sequence))
	for i := range all {
		all[i] = int32(i)
	}
	u.steps = [][]int32{all, all[len(all)/3:], all[:1]}
	for _, step := range u.steps {
		u.rows = append(u.rows, a.attend(p, b, c.heads, step))
	}
	return u
}

func attentionGradients(p *Pair, b attentionBuffers, dout Buffers, h gpu.Heads) (dq, dk, dv []float32) {
	of := func(b Buffers) gpu.Buffer { return b.Dev }
	q, k, v := p.Activations(b.q.Ref.Len, 1), p.Activations(b.k.Ref.Len, 1), p.Activations(b.v.Ref.Len, 1)
	p.Device.Attend(b.call(h, of))
	p.Device.AttendBackward(gpu.AttentionGrad{Attention: b.call(h, of), DOut: of(dout), DQ: of(q), DK: of(k), DV: of(v)})
	return p.Download(q.Dev), p.Download(k.Dev), p.Download(v.Dev)
}

// positionsOf are the places of a step's rows that are wanted.
func positionsOf(step []int32, rows map[int]bool) map[int]bool {
	at := map[int]bool{}
	for i, row := range step {
		at[i] = rows[int(row)]
	}
	return at
}

// same fails unless the rows of both have the same bits and are numbers.
func (p *Pair) same(what string, want, got []float32, rows map[int]bool, width int) {
	p.T.Helper()
	for row, wanted := range rows {
		x, y := want[row*width:(row+1)*width], got[row*width:(row+1)*width]
		if wanted && !slices.Equal(x, y) {
			p.T.Fatalf("%s: row %d is %v, and %v where others are not numbers", what, row, x, y)
		}
	}
}
