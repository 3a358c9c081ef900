package reference

import (
	"math"

	"understudy/gpu"
)

// Zero clears y.
func (d *Device) Zero(y gpu.Buffer) {
	clear(floats(y))
	clear(ints(y))
}

// Copy does y = x.
func (d *Device) Copy(y, x gpu.Buffer) {
	copy(floats(y), floats(x))
	copy(ints(y), ints(x))
}

// Add does y = a + b.
func (d *Device) Add(y, a, b gpu.Buffer) {
	to, left, right := floats(y), floats(a), floats(b)
	for i := range to {
		to[i] = d.stored(left[i] + right[i])
	}
}

// AddScaled does y += s·x.
func (d *Device) AddScaled(y gpu.Buffer, s float32, x gpu.Buffer) {
	to, from := floats(y), floats(x)
	for i := range to {
		to[i] = d.stored(to[i] + float64(s)*from[i])
	}
}

// Gather does y (M,C)[i] = x (R,C)[rows[i]].
func (d *Device) Gather(y, x, rows gpu.Buffer) {
	to, from, c := floats(y), floats(x), y.Len/rows.Len
	for i, r := range ints(rows) {
		copy(to[i*c:(i+1)*c], from[int(r)*c:])
	}
}

// Scatter does y (S,C)[rows[i]] = x (R,C)[i].
func (d *Device) Scatter(y, x, rows gpu.Buffer) {
	to, from, c := floats(y), floats(x), x.Len/rows.Len
	for i, r := range ints(rows) {
		copy(to[int(r)*c:(int(r)+1)*c], from[i*c:])
	}
}

// Embed does y (R,C)[i] = table (V,C)[tokens[i]].
func (d *Device) Embed(y, table, tokens gpu.Buffer) { d.Gather(y, table, tokens) }

// RMSNorm does y (R,C) = x·rstd·w.
func (d *Device) RMSNorm(y, rstd, x, w gpu.Buffer, eps float32) {
	to, from, gain, scale := floats(y), floats(x), floats(w), floats(rstd)
	c := len(gain)
	for r := range scale {
		row, sum := from[r*c:(r+1)*c], 0.0
		for _, v := range row {
			sum += v * v
		}
		scale[r] = d.stored(1 / math.Sqrt(sum/float64(c)+float64(eps)))
		for i, v := range row {
			to[r*c+i] = d.stored(v * scale[r] * gain[i])
		}
	}
}

// MatMul does y (R,N) = x (R,K)·wᵀ.
func (d *Device) MatMul(y, x gpu.Buffer, w gpu.Weight) {
	to, from, matrix := floats(y), floats(x), floats(w.Buffer)
	for r := range len(from) / w.K {
		row := from[r*w.K : (r+1)*w.K]
		for n := range w.N {
			sum := 0.0
			for k, v := range matrix[n*w.K : (n+1)*w.K] {
				sum += v * row[k]
			}
			to[r*w.N+n] = d.stored(sum)
		}
	}
}

// RoPE turns the pairs (x[i], x[i+D/2]) of x (R,heads,D).
func (d *Device) RoPE(x, table, positions gpu.Buffer, width int, inverse bool) {
	values, angles, half := floats(x), floats(table), width/2
	heads := x.Len / positions.Len / width
	for r, p := range ints(positions) {
		turn := angles[int(p)*width : (int(p)+1)*width]
		for h := range heads {
			head := values[(r*heads+h)*width : (r*heads+h+1)*width]
			for i := range half {
				cos, sin := turn[i], turn[half+i]
				if inverse {
					sin = -sin
				}
				a, b := head[i], head[half+i]
				head[i], head[half+i] = d.stored(a*cos-b*sin), d.stored(b*cos+a*sin)
			}
		}
	}
}

// SwiGLU does h = gate·sigmoid(gate)·up.
func (d *Device) SwiGLU(h, gate, up gpu.Buffer) {
	to, g, u := floats(h), floats(gate), floats(up)
	for i := range to {
		to[i] = d.stored(g[i] * sigmoid(g[i]) * u[i])
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// LogProbs writes LSE and, when there are targets, LogProb and Entropy.
func (d *Device) LogProbs(t gpu.TokenLoss) {
	logits, scale, lse, targets := floats(t.Logits), floats(t.Scale), floats(t.LSE), ints(t.Targets)
	v := len(logits) / len(lse)
	for r := range lse {
		row := logits[r*v : (r+1)*v]
		lse[r] = d.stored(logSumExp(row, scale[r]))
		if targets == nil {
			continue
		}
		floats(t.LogProb)[r] = d.stored(d.stored(scale[r]*row[targets[r]]) - lse[r])
		entropy := 0.0
		for _, z := range row {
			logp := scale[r]*z - lse[r]
			entropy -= math.Exp(logp) * logp
		}
		floats(t.Entropy)[r] = d.stored(entropy)
	}
}

// logSumExp is log Σ exp(scale·z), the greatest taken out first.
func logSumExp(row []float64, scale float64) float64 {
	greatest := math.Inf(-1)
	for _, z := range row {
		greatest = max(greatest, scale*z)
	}
	sum := 0.0
	for _, z := range row {
		sum += math.Exp(scale*z - greatest)
	}
	return greatest + math.Log(sum)
}
