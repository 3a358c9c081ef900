package host

import "understudy/gpu"

// gradBlock is the tokens whose scores a task holds at a time.
const gradBlock = 32

// AttendBackward is the gradient of Attend, from the scores computed again: with p the
// probabilities of a row and dp = dout·v of each key,
//
//	dv += p·dout;  ds = p·(dp − Σ p·dp)·Scale;  dq = ds·k;  dk += ds·q
//
// A task has one key/value head of one sequence, so that nothing is added by two.
func (d *Device) AttendBackward(t gpu.AttentionGrad) {
	a := newAttention(t.Heads, t.Scale, t.Out, t.Q, t.K, t.V)
	a.lse = floats(t.LSE)
	sequences := sequences(ints(t.Starts))
	d.pool.run(len(sequences)*a.G, func(w *worker, task int) {
		b := newAttentionGrad(d, w, a, task%a.G, sequences[task/a.G])
		b.dout, b.dq = floats(t.DOut), floats(t.DQ)
		from := 0
		for asked := ints(t.Asked); asked != nil && from < b.tokens && asked[b.start+from] == 0; {
			from++
		}
		for ; from < b.tokens; from += gradBlock {
			b.block(d, w, from, min(b.tokens, from+gradBlock))
		}
		b.store(floats(t.DK), b.dk)
		b.store(floats(t.DV), b.dv)
	})
}

// sequences gives the first row of each sequence and the row after its last.
func sequences(starts []int32) [][2]int {
	var list [][2]int
	for from := 0; from < len(starts); {
		end := from + 1
		for end < len(starts) && starts[end] == starts[from] {
			end++
		}
		list = append(list, [2]int{from, end})
		from = end
	}
	return list
}

// attentionGrad is the work of one task. T tokens, P = T rounded up to 16, W = D rounded up
// to 16.
type attentionGrad struct {
	attention
	g, start, tokens, padded int

	keys     []float32 // rows of W, apart by
	apart    int
	kT, vT   []float32 // (D,P)
	dk, dv   []float32 // (P,W)
	dout, dq []float32 // (T,H,D) of all sequences
}

func newAttentionGrad(d *Device, w *worker, a attention, g int, rows [2]int) *attentionGrad {
	b := &attentionGrad{attention: a, g: g, start: rows[0], tokens: rows[1] - rows[0]}
	b.padded = (b.tokens + chunk - 1) / chunk * chunk
	b.kT, b.vT = w.floats(scratchK, a.D*b.padded), w.floats(scratchV, a.D*b.padded)
	b.dk, b.dv = w.floats(scratchDK, b.padded*a.width), w.floats(scratchDV, b.padded*a.width)
	for _, x := range [][]float32{b.kT, b.vT, b.dk, b.dv} {
		clear(x)
	}
	stride, at := a.G*a.D, b.start*a.G*a.D+g*a.D
	d.k.turn(b.kT, b.padded, a.k[at:], stride, b.tokens, a.D)
	d.k.turn(b.vT, b.padded, a.v[at:], stride, b.tokens, a.D)
	b.keys, b.apart = a.k[at:], stride
	if a.width != a.D {
		b.keys, b.apart = w.floats(scratchA, b.tokens*a.width), a.width
		clear(b.keys)
		copyRows(b.keys, a.width, a.k[at:], stride, b.tokens, a.D)
	}
	return b
}

// block takes the queries of tokens from..end-1 with all of the group's heads.
func (b *attentionGrad) block(d *Device, w *worker, from, end int) {
	rows, wide := (end-from)*b.group(), (end+chunk-1)/chunk*chunk
	q, dout := w.floats(scratchQ, rows*b.width), w.floats(scratchO, rows*b.width)
	s, dp := w.floats(scratchS, rows*wide), w.floats(scratchG, rows*wide)
	clear(q)
	clear(dout)
	b.each(from, end, func(i, row, h int) {
		copy(q[i*b.width:], b.query(b.q, row, b.g, h))
		copy(dout[i*b.width:], b.query(b.dout, row, b.g, h))
	})
	d.multiplySmall(smallProduct{m: rows, n: wide, k: b.D, a: q, rs: b.width, cs: 1, b: b.kT, ldb: b.padded, c: s, ldc: wide})
	d.multiplySmall(smallProduct{m: rows, n: wide, k: b.D, a: dout, rs: b.width, cs: 1, b: b.vT, ldb: b.padded, c: dp, ldc: wide})
	b.each(from, end, func(i, row, h int) {
		score, grad, n := s[i*wide:(i+1)*wide], dp[i*wide:(i+1)*wide], row-b.start+1
		delta := d.k.dot(b.D, &dout[i*b.width], &b.query(b.out, row, b.g, h)[0])
		d.k.scoreGrad(n, &score[0], &grad[0], b.scale, b.lse[row*b.H+b.g*b.group()+h], delta)
		clear(score[n:])
		clear(grad[n:])
	})
	b.addRows(d, smallProduct{m: end, n: b.width, k: rows, a: s, rs: 1, cs: wide, b: dout, ldb: b.width, c: b.dv, ldc: b.width, load: 1}, from)
	b.addRows(d, smallProduct{m: end, n: b.width, k: rows, a: dp, rs: 1, cs: wide, b: q, ldb: b.width, c: b.dk, ldc: b.width, load: 1}, from)
	b.sumKeys(d, smallProduct{m: rows, n: b.width, k: end, a: dp, rs: wide, cs: 1, b: b.keys, ldb: b.apart, c: dout, ldc: b.width}, from)
	b.each(from, end, func(i, row, h int) { copy(b.query(b.dq, row, b.g, h), dout[i*b.width:]) })
}

// addRows adds the rows of a block, which starts at token from, to the gradients of the keys
// before its end. The last key shows whether what it is not seen by is finite; the block is
// the first to add to its own keys.
func (b *attentionGrad) addRows(d *Device, x smallProduct, from int) {
	d.multiplySmall(x)
	if d.finite(x.c[(x.m-1)*x.ldc:][:x.n]) {
		return
	}
	own := x.part([2]int{from, x.m}, [2]int{0, x.k})
	clear(own.c[:own.m*own.ldc])
	d.multiplySeen(own, func(i int) [2]int { return [2]int{i * b.group(), x.k} })
}

// sumKeys sums over keys for the rows of a block, which starts at token from. The first row
// shows whether what it does not see is finite.
func (b *attentionGrad) sumKeys(d *Device, x smallProduct, from int) {
	d.multiplySmall(x)
	if !d.finite(x.c[:x.n]) {
		d.multiplySeen(x, func(i int) [2]int { return [2]int{0, from + i/b.group() + 1} })
	}
}

// each visits the queries of tokens from..end-1: the i-th is head h of the group in a row.
func (b *attentionGrad) each(from, end int, f func(i, row, h int)) {
	for i := range (end - from) * b.group() {
		f(i, b.start+from+i/b.group(), i%b.group())
	}
}

// store writes sums (P,W) to the rows of x (T,G,D).
func (b *attentionGrad) store(x, sums []float32) {
	copyRows(x[b.start*b.G*b.D+b.g*b.D:], b.G*b.D, sums, b.width, b.tokens, b.D)
}
