package devicetest

import "understudy/gpu"

// EveryOperation gives the results of those operations that more than one thread shares, for
// tests of what must not change a bit.
func EveryOperation(p *Pair) []float32 {
	const rows, width, wide = 300, 96, 200
	d := p.Device
	c := attentionCase{heads: gpu.Heads{H: 4, G: 2, D: 24}, lengths: []int{170, 100, 30}}
	b := newAttentionBuffers(p, c)
	of := func(b Buffers) gpu.Buffer { return b.Dev }
	d.Attend(b.call(c.heads, of))
	dq, dk, dv := p.Random(b.q.Ref.Len, 1), p.Random(b.k.Ref.Len, 1), p.Random(b.v.Ref.Len, 1)
	d.AttendBackward(gpu.AttentionGrad{Attention: b.call(c.heads, of), DOut: b.q.Dev, DQ: dq.Dev, DK: dk.Dev, DV: dv.Dev})

	x, gain, rstd, normed := p.Random(rows*width, 1), p.Random(width, 1), p.Random(rows, 1), p.Random(rows*width, 1)
	d.RMSNorm(normed.Dev, rstd.Dev, x.Dev, gain.Dev, 1e-5)
	y, dx, dw, dgain := p.Random(rows*wide, 1), p.Random(rows*width, 1), p.Random(wide*width, 1), p.Random(width, 1)
	w := d.NewWeight(p.Random(wide*width, 1).Dev, wide, width)
	d.MatMul(y.Dev, normed.Dev, w)
	d.MatMulBackX(dx.Dev, y.Dev, w, true)
	d.MatMulBackW(dw.Dev, y.Dev, x.Dev, rows)
	d.RMSNormBackward(dx.Dev, dgain.Dev, normed.Dev, x.Dev, gain.Dev, rstd.Dev)
	h := p.Random(rows*wide, 1)
	d.SwiGLU(h.Dev, y.Dev, y.Dev)

	var all []float32
	for _, r := range []Buffers{b.out, b.lse, dq, dk, dv, normed, y, dx, dw, dgain, h} {
		all = append(all, p.Download(r.Dev)...)
	}
	sum, err := d.SquareSum(y.Dev)
	if err != nil {
		p.T.Fatal(err)
	}
	return append(all, float32(sum))
}
