package host

import (
	"math"

	"understudy/gpu"
)

// Zero clears y.
func (d *Device) Zero(y gpu.Buffer) {
	if y.Type == gpu.I32 {
		clear(ints(y))
		return
	}
	clear(floats(y))
}

// Copy computes y = x, widened where their types differ.
func (d *Device) Copy(y, x gpu.Buffer) {
	if y.Type == gpu.I32 {
		copy(ints(y), ints(x))
		return
	}
	to := floats(y)
	d.spans(len(to), func(from, end int) { widen(to[from:end], x.Slice(from, end)) })
}

// Add computes y = a + b.
func (d *Device) Add(y, a, b gpu.Buffer) {
	to, left, right := floats(y), floats(a)[:y.Len], floats(b)[:y.Len]
	d.spans(len(to), func(i, end int) { d.k.add(end-i, &to[i], &left[i], &right[i]) })
}

// AddScaled computes y += s·x.
func (d *Device) AddScaled(y gpu.Buffer, s float32, x gpu.Buffer) {
	to, from := floats(y), floats(x)[:y.Len]
	d.spans(len(to), func(i, end int) { d.k.addScaled(end-i, &to[i], &from[i], s) })
}

// Gather computes y (M,C)[i] = x (R,C)[rows[i]].
func (d *Device) Gather(y, x, rows gpu.Buffer) {
	list := ints(rows)
	if len(list) == 0 {
		return
	}
	to, from, c := floats(y), floats(x), y.Len/len(list)
	for i, r := range list {
		copy(to[i*c:(i+1)*c], from[int(r)*c:(int(r)+1)*c])
	}
}

// Scatter computes y (S,C)[rows[i]] = x (R,C)[i].
func (d *Device) Scatter(y, x, rows gpu.Buffer) {
	list := ints(rows)
	if len(list) == 0 {
		return
	}
	to, from, c := floats(y), floats(x), x.Len/len(list)
	for i, r := range list {
		copy(to[int(r)*c:(int(r)+1)*c], from[i*c:(i+1)*c])
	}
}

// Embed computes y (R,C)[i] = table (V,C)[tokens[i]].
func (d *Device) Embed(y, table, tokens gpu.Buffer) {
	list := ints(tokens)
	if len(list) == 0 {
		return
	}
	to, c := floats(y), y.Len/len(list)
	for i, token := range list {
		widen(to[i*c:(i+1)*c], table.Slice(int(token)*c, (int(token)+1)*c))
	}
}

// RMSNorm computes y (R,C) = x·rstd·w, rstd (R) = 1/sqrt(mean(x²)+eps).
func (d *Device) RMSNorm(y, rstd, x, w gpu.Buffer, eps float32) {
	to, inverse, gain, c := floats(y), floats(rstd), floats(w), w.Len
	from := floats(x)[:len(inverse)*c]
	_ = to[:len(from)]
	d.rows(len(inverse), c, func(_ *worker, r int) {
		row := &from[r*c]
		mean := float64(d.k.dot(c, row, row)) / float64(c)
		inverse[r] = float32(1 / math.Sqrt(mean+float64(eps)))
		d.k.scaleBy(c, &to[r*c], row, &gain[0], inverse[r])
	})
}

// packRows is how few rows a product has for its weight to be packed for good. Above it,
// packing a block whenever it is used costs less than 4 % and no memory.
const packRows = 96

// MatMul computes y (R,N) = x (R,K)·wᵀ. In Fast mode, products of few rows round float32
// weights to bfloat16: they read them from memory at half the cost.
func (d *Device) MatMul(y, x gpu.Buffer, w gpu.Weight) {
	rows, f := x.Len/w.K, w.Form.(*form)
	if rows >= packRows {
		d.multiply(product{
			m: rows, n: w.N, k: w.K,
			a: floats(x), rs: w.K, cs: 1,
			b: operand{matrix: f.matrix, transposed: true, width: d.k.width}, c: floats(y), ldc: w.N,
		})
		return
	}
	if f.panels.words == nil {
		f.panels, f.stale = newPanels(d, f.matrix, d.mode == gpu.Fast && f.kind == gpu.F32, f.stale), nil
	}
	d.multiplyFew(floats(y), floats(x), rows, f.panels)
}

// RoPE turns the pairs (x[i], x[i+D/2]) of x (R,heads,D), D = width.
func (d *Device) RoPE(x, table, positions gpu.Buffer, width int, inverse bool) {
	values, angles, list, half := floats(x), floats(table), ints(positions), width/2
	if len(list) == 0 || half == 0 {
		return
	}
	sign := float32(1)
	if inverse {
		sign = -1
	}
	c := len(values) / len(list)
	d.rows(len(list), c, func(_ *worker, r int) {
		turn := angles[int(list[r])*width:][:width]
		for h := r * c; h < (r+1)*c; h += width {
			head := values[h : h+width]
			d.k.rotate(half, &head[0], &head[half], &turn[0], &turn[half], sign)
		}
	})
}

// SwiGLU computes h (R,F) = gate·sigmoid(gate)·up.
func (d *Device) SwiGLU(h, gate, up gpu.Buffer) {
	to, g, u := floats(h), floats(gate)[:h.Len], floats(up)[:h.Len]
	d.spans(len(to), func(i, end int) { d.k.swiGLU(end-i, &to[i], &g[i], &u[i]) })
}

// LogProbs writes LSE and, when there are targets, LogProb and Entropy.
func (d *Device) LogProbs(t gpu.TokenLoss) {
	logits, scale, lse := floats(t.Logits), floats(t.Scale), floats(t.LSE)
	if len(lse) == 0 {
		return
	}
	targets, logProb, entropy := ints(t.Targets), floats(t.LogProb), floats(t.Entropy)
	v := len(logits) / len(lse)
	d.rows(len(lse), 4*v, func(_ *worker, r int) {
		row := logits[r*v : (r+1)*v]
		top := scale[r] * d.k.max(v, &row[0])
		sum, moment := d.k.expSum(v, &row[0], scale[r], top)
		logSum := math.Log(float64(sum))
		lse[r] = float32(float64(top) + logSum)
		if targets == nil {
			return
		}
		logProb[r] = gpu.LogProb(row[targets[r]], scale[r], lse[r])
		entropy[r] = float32(logSum - float64(moment)/float64(sum))
	})
}

// grain is the elements that are worth a task.
const grain = 1 << 14

// spans does f for ranges that cover 0..n-1. Each element's result is its own.
func (d *Device) spans(n int, f func(from, end int)) {
	d.pool.run((n+grain-1)/grain, func(_ *worker, task int) { f(task*grain, min(n, (task+1)*grain)) })
}

// rows does f for each of n rows of c elements.
func (d *Device) rows(n, c int, f func(w *worker, r int)) {
	each := max(1, grain/c)
	d.pool.run((n+each-1)/each, func(w *worker, task int) {
		for r := task * each; r < min(n, (task+1)*each); r++ {
			f(w, r)
		}
	})
}
