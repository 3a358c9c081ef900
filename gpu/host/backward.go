package host

import (
	"understudy/gpu"
)

// EmbedBackward computes dtable[tokens[i]] += dy[i], in the order of i.
func (d *Device) EmbedBackward(dtable, dy, tokens gpu.Buffer) {
	list := ints(tokens)
	if len(list) == 0 {
		return
	}
	to, from, c := floats(dtable), floats(dy), dy.Len/len(list)
	for i, token := range list {
		row := to[int(token)*c : (int(token)+1)*c]
		d.k.addScaled(c, &row[0], &from[i*c], 1)
	}
}

// columns is the width of the strips that a sum over rows is cut into.
const columns = 64

// RMSNormBackward computes, with n = x·rstd and dn = dy·w, dx += rstd·(dn − n·mean(dn·n)) and
// dw += Σ_rows dy·n, row after row.
func (d *Device) RMSNormBackward(dx, dw, dy, x, w, rstd gpu.Buffer) {
	to, grad, from, gain, inverse, c := floats(dx), floats(dy), floats(x), floats(w), floats(rstd), w.Len
	_, _, _ = to[:len(inverse)*c], grad[:len(inverse)*c], from[:len(inverse)*c]
	d.rows(len(inverse), c, func(_ *worker, r int) {
		s := inverse[r]
		mean := d.k.dot3(c, &grad[r*c], &gain[0], &from[r*c]) / float32(c)
		d.k.normBackward(c, &to[r*c], &grad[r*c], &gain[0], &from[r*c], s, s*s*s*mean)
	})
	if dw.None() {
		return
	}
	sums := floats(dw)[:c]
	d.pool.run((c+columns-1)/columns, func(_ *worker, task int) {
		at, n := task*columns, min(columns, c-task*columns)
		for r, s := range inverse {
			d.k.addProduct(n, &sums[at], &grad[r*c+at], &from[r*c+at], s)
		}
	})
}

// MatMulBackX computes dx (R,K) = or += dy (R,N)·w.
func (d *Device) MatMulBackX(dx, dy gpu.Buffer, w gpu.Weight, add bool) {
	d.multiply(product{
		m: dy.Len / w.N, n: w.K, k: w.N,
		a: floats(dy), rs: w.N, cs: 1,
		b: operand{matrix: matrixOf(w.Buffer, w.N, w.K), width: d.k.width},
		c: floats(dx), ldc: w.K, add: add,
	})
}

// MatMulBackW computes dw (N,K) += dy (R,N)ᵀ·x (R,K).
func (d *Device) MatMulBackW(dw, dy, x gpu.Buffer, rows int) {
	if rows == 0 {
		return
	}
	n, k := dy.Len/rows, x.Len/rows
	d.multiply(product{
		m: n, n: k, k: rows,
		a: floats(dy), rs: 1, cs: n,
		b: operand{matrix: matrixOf(x, rows, k), width: d.k.width},
		c: floats(dw), ldc: k, add: true,
	})
}

// SwiGLUBackward is the gradient of SwiGLU.
func (d *Device) SwiGLUBackward(dgate, dup, dh, gate, up gpu.Buffer) {
	n := dh.Len
	dg, du, grad, g, u := floats(dgate)[:n], floats(dup)[:n], floats(dh), floats(gate)[:n], floats(up)[:n]
	d.spans(n, func(i, end int) { d.k.swiGLUBackward(end-i, &dg[i], &du[i], &grad[i], &g[i], &u[i]) })
}

// LogProbsBackward computes, with p the probabilities,
// dlogits = scale·(dlogprob·(1[target] − p) − dentropy·p·(log p + entropy)).
func (d *Device) LogProbsBackward(t gpu.TokenLoss, dlogprob, dentropy gpu.Buffer) {
	logits, scale, lse, targets := floats(t.Logits), floats(t.Scale), floats(t.LSE), ints(t.Targets)
	if len(lse) == 0 {
		return
	}
	dlogp, dent, entropy := floats(dlogprob), floats(dentropy), floats(t.Entropy)
	v := len(logits) / len(lse)
	d.rows(len(lse), 4*v, func(_ *worker, r int) {
		row, s := logits[r*v:(r+1)*v], scale[r]
		c0, c1 := -s*dlogp[r], float32(0)
		if dent != nil {
			c0 -= s * dent[r] * entropy[r]
			c1 = -s * dent[r]
		}
		d.k.logitGrad(v, &row[0], s, lse[r], c0, c1)
		row[targets[r]] += s * dlogp[r]
	})
}

// SquareSum is Σ x² in float64: the sums of fixed pieces, added in order.
func (d *Device) SquareSum(x gpu.Buffer) (float64, error) {
	sums := make([]float64, (x.Len+grain-1)/grain)
	d.pool.run(len(sums), func(w *worker, task int) {
		piece := x.Slice(task*grain, min(x.Len, (task+1)*grain))
		values := floats(piece)
		if x.Type != gpu.F32 {
			values = w.floats(scratchA, piece.Len)
			widen(values, piece)
		}
		sums[task] = d.k.squareSum(values)
	})
	total := 0.0
	for _, s := range sums {
		total += s
	}
	return total, nil
}

func (k *kernels) squareSum(x []float32) float64 {
	const whole = 32 // what a step of the loop takes
	sum, n := 0.0, len(x)/whole*whole
	if n > 0 {
		sum = k.squares(n, &x[0])
	}
	for _, v := range x[n:] {
		sum += float64(v) * float64(v)
	}
	return sum
}

// AdamW is one step of the optimiser.
func (d *Device) AdamW(u gpu.AdamWUpdate) {
	n := u.P.Len
	p, g, m, v := floats(u.P), floats(u.G)[:n], floats(u.M)[:n], floats(u.V)[:n]
	keep := 1 - float32(u.LR*u.Decay)
	d.spans(n, func(i, end int) {
		d.k.adamW(end-i, &p[i], &g[i], &m[i], &v[i],
			u.GradScale, u.Beta1, 1-u.Beta1, u.Beta2, 1-u.Beta2, keep, u.LR/u.Bias1, 1/u.Bias2, u.Eps)
	})
}
