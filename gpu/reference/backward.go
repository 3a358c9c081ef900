package reference

import (
	"math"

	"understudy/gpu"
)

// EmbedBackward does dtable[tokens[i]] += dy[i].
func (d *Device) EmbedBackward(dtable, dy, tokens gpu.Buffer) {
	to, from, c := floats(dtable), floats(dy), dy.Len/tokens.Len
	for r, token := range ints(tokens) {
		row := to[int(token)*c : (int(token)+1)*c]
		for i := range row {
			row[i] = d.stored(row[i] + from[r*c+i])
		}
	}
}

// RMSNormBackward does with n = x·rstd and dn = dy·w, dx += rstd·(dn − n·mean(dn·n)),
// dw += Σ_rows dy·n.
func (d *Device) RMSNormBackward(dx, dw, dy, x, w, rstd gpu.Buffer) {
	to, grad, from, gain, scale := floats(dx), floats(dy), floats(x), floats(w), floats(rstd)
	c := len(gain)
	dgain := make([]float64, c)
	for r, s := range scale {
		row, dout := from[r*c:(r+1)*c], grad[r*c:(r+1)*c]
		mean := 0.0
		for i, v := range row {
			mean += dout[i] * gain[i] * v * s / float64(c)
			dgain[i] += dout[i] * v * s
		}
		for i, v := range row {
			to[r*c+i] = d.stored(to[r*c+i] + s*(dout[i]*gain[i]-v*s*mean))
		}
	}
	for i, v := range floats(dw) {
		floats(dw)[i] = d.stored(v + dgain[i])
	}
}

// MatMulBackX does dx (R,K) = dy (R,N)·w.
func (d *Device) MatMulBackX(dx, dy gpu.Buffer, w gpu.Weight, add bool) {
	to, grad, matrix := floats(dx), floats(dy), floats(w.Buffer)
	for r := range len(grad) / w.N {
		sums := make([]float64, w.K)
		for n, g := range grad[r*w.N : (r+1)*w.N] {
			for k, v := range matrix[n*w.K : (n+1)*w.K] {
				sums[k] += g * v
			}
		}
		for k, v := range sums {
			if add {
				v += to[r*w.K+k]
			}
			to[r*w.K+k] = d.stored(v)
		}
	}
}

// MatMulBackW does dw (N,K) += dyᵀ·x.
func (d *Device) MatMulBackW(dw, dy, x gpu.Buffer, rows int) {
	to, grad, from := floats(dw), floats(dy), floats(x)
	n, k := len(grad)/rows, len(from)/rows
	for i := range n {
		sums := make([]float64, k)
		for r := range rows {
			for j, v := range from[r*k : (r+1)*k] {
				sums[j] += grad[r*n+i] * v
			}
		}
		for j, v := range sums {
			to[i*k+j] = d.stored(to[i*k+j] + v)
		}
	}
}

// SwiGLUBackward is the gradient of SwiGLU.
func (d *Device) SwiGLUBackward(dgate, dup, dh, gate, up gpu.Buffer) {
	dg, du, grad, g, u := floats(dgate), floats(dup), floats(dh), floats(gate), floats(up)
	for i, y := range grad {
		s, x := sigmoid(g[i]), g[i]
		dg[i], du[i] = d.stored(y*u[i]*s*(1+x*(1-s))), d.stored(y*x*s)
	}
}

// LogProbsBackward does with p the probabilities,
// dlogits = scale·(dlogprob·(1[target] − p) − dentropy·p·(log p + entropy)).
func (d *Device) LogProbsBackward(t gpu.TokenLoss, dlogprob, dentropy gpu.Buffer) {
	logits, scale, lse, dlogp, dent := floats(t.Logits), floats(t.Scale), floats(t.LSE), floats(dlogprob), floats(dentropy)
	v := len(logits) / len(lse)
	for r, target := range ints(t.Targets) {
		row := logits[r*v : (r+1)*v]
		for i, z := range row {
			logp := scale[r]*z - lse[r]
			p := math.Exp(logp)
			grad := -dlogp[r] * p
			if i == int(target) {
				grad += dlogp[r]
			}
			if dent != nil {
				grad -= dent[r] * p * (logp + floats(t.Entropy)[r])
			}
			row[i] = d.stored(scale[r] * grad)
		}
	}
}

// SquareSum is Σ x².
func (d *Device) SquareSum(x gpu.Buffer) (float64, error) {
	sum := 0.0
	for _, v := range floats(x) {
		sum += v * v
	}
	return sum, nil
}

// AdamW is one step of the optimiser.
func (d *Device) AdamW(u gpu.AdamWUpdate) {
	p, grads, m, v := floats(u.P), floats(u.G), floats(u.M), floats(u.V)
	lr, b1, b2 := float64(u.LR), float64(u.Beta1), float64(u.Beta2)
	for i, g := range grads {
		g *= float64(u.GradScale)
		m[i] = d.stored(b1*m[i] + (1-b1)*g)
		v[i] = d.stored(b2*v[i] + (1-b2)*g*g)
		step := m[i] / float64(u.Bias1) / (math.Sqrt(v[i]/float64(u.Bias2)) + float64(u.Eps))
		p[i] = d.stored(p[i] - lr*float64(u.Decay)*p[i] - lr*step)
	}
}
