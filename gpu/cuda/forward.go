package cuda

import (
	"understudy/gpu"
)

// Sizes of blocks and grids that kernels and launches agree on.
const (
	threads = 256  // a block of elementwise kernels, and of those with a row a block
	maxGrid = 4096 // blocks of elementwise kernels, which stride over the rest
)

// elements is the grid of an elementwise kernel over n elements.
func elements(n int) dim { return line(min(ceil(n, threads), maxGrid)) }

func block(n int) dim { return dim{uint32(n), 1, 1} }

// suffix of a kernel by the type that it reads.
func suffix(t gpu.DType) string {
	switch t {
	case gpu.BF16:
		return "_bf16"
	case gpu.F16:
		return "_f16"
	case gpu.F32:
		return "_f32"
	case gpu.I32:
	}
	panic("cuda: floats wanted of a buffer of indices")
}

// Zero clears y.
func (d *Device) Zero(y gpu.Buffer) {
	d.indicesChanged(y, nil)
	if y.Len > 0 {
		d.push(command{kind: filling, n: 3, args: [maxArgs]uint64{address(y), 0, bytesIn(y)}})
	}
}

// Copy does y = x, widening.
func (d *Device) Copy(y, x gpu.Buffer) {
	d.indicesChanged(y, nil)
	switch {
	case y.Len == 0:
	case x.Type == y.Type:
		d.push(command{kind: copying, n: 3, args: [maxArgs]uint64{address(y), address(x), bytesIn(y)}})
	default: // widen_bf16(y f32, x bf16, n i64), widen_f16
		d.launch("widen"+suffix(x.Type), elements(y.Len), block(threads), ptr(y), ptr(x), i64(y.Len))
	}
}

// Add does y = a + b.
func (d *Device) Add(y, a, b gpu.Buffer) {
	d.launch("add_f32", elements(y.Len), block(threads), ptr(y), ptr(a), ptr(b), i64(y.Len))
}

// AddScaled does y += s·x.
func (d *Device) AddScaled(y gpu.Buffer, s float32, x gpu.Buffer) {
	d.launch("add_scaled_f32", elements(y.Len), block(threads), ptr(y), ptr(x), i64(y.Len), f32(s))
}

// Gather does y (M,C)[i] = x (R,C)[rows[i]], a block a row.
func (d *Device) Gather(y, x, rows gpu.Buffer) { d.gather("gather", y, x, rows) }

// Embed does y (R,C)[i] = table (V,C)[tokens[i]].
func (d *Device) Embed(y, table, tokens gpu.Buffer) { d.gather("gather", y, table, tokens) }

// gather_f32, _bf16, _f16 (y f32, x, rows, m i32, c i32): a block a row.
func (d *Device) gather(name string, y, x, rows gpu.Buffer) {
	if rows.Len > 0 {
		d.launch(name+suffix(x.Type), line(rows.Len), block(threads), ptr(y), ptr(x), ptr(rows), i32(rows.Len), i32(y.Len/rows.Len))
	}
}

// Scatter does y (S,C)[rows[i]] = x (R,C)[i], a block a row.
func (d *Device) Scatter(y, x, rows gpu.Buffer) {
	if rows.Len > 0 {
		d.launch("scatter_f32", line(rows.Len), block(threads), ptr(y), ptr(x), ptr(rows), i32(rows.Len), i32(x.Len/rows.Len))
	}
}

// RMSNorm does y (R,C) = x·rstd·w, a block a row: rms_norm_f32(y, rstd, x, w, r, c, eps). When
// the last command is the Add that makes x, as in a residual stream, both are one:
// add_rms_norm_f32(y, rstd, x, a, b, w, r, c, eps), which has the same bits and reads x once less.
func (d *Device) RMSNorm(y, rstd, x, w gpu.Buffer, eps float32) {
	if a, b, ok := d.sumOf(x); ok && rstd.Len > 0 {
		d.list = d.list[:len(d.list)-1]
		d.launch("add_rms_norm_f32", line(rstd.Len), rowBlock(w.Len),
			ptr(y), ptr(rstd), ptr(x), a, b, ptr(w), i32(rstd.Len), i32(w.Len), f32(eps))
		return
	}
	if rstd.Len > 0 {
		d.launch("rms_norm_f32", line(rstd.Len), rowBlock(w.Len), ptr(y), ptr(rstd), ptr(x), ptr(w), i32(rstd.Len), i32(w.Len), f32(eps))
	}
}

// sumOf gives the terms of x when it is what the last command adds.
func (d *Device) sumOf(x gpu.Buffer) (a, b uint64, ok bool) {
	if len(d.list) == 0 {
		return 0, 0, false
	}
	last := &d.list[len(d.list)-1]
	if last.kind != launching || last.fn != d.kernels["add_f32"] || last.args[0] != ptr(x) || last.args[3] != i64(x.Len) {
		return 0, 0, false
	}
	return last.args[1], last.args[2], true
}

// rowBlock is the threads for a row of c elements: whole warps, by c alone.
func rowBlock(c int) dim { return block(min(threads, ceil(c, 32)*32)) }

// RoPE turns x (R,heads,D) in place, a block a row: rope_f32(x, table, positions, r, heads, d, inverse).
func (d *Device) RoPE(x, table, positions gpu.Buffer, width int, inverse bool) {
	if r := positions.Len; r > 0 {
		d.launch("rope_f32", line(r), block(threads),
			ptr(x), ptr(table), ptr(positions), i32(r), i32(x.Len/r/width), i32(width), flag(inverse))
	}
}

// SwiGLU does h = gate·sigmoid(gate)·up.
func (d *Device) SwiGLU(h, gate, up gpu.Buffer) {
	d.launch("swiglu_f32", elements(h.Len), block(threads), ptr(h), ptr(gate), ptr(up), i64(h.Len))
}

// vocabularyBlock is the threads for a row of v logits, by v alone: many, as there are few rows.
func vocabularyBlock(v int) dim { return block(min(4*threads, ceil(v, 32)*32)) }

// LogProbs writes LSE and, when there are targets, LogProb and Entropy, a block a row:
// log_probs_f32(lse, logprob, entropy, logits, scale, targets or 0, r, v).
func (d *Device) LogProbs(t gpu.TokenLoss) {
	if r := t.LSE.Len; r > 0 {
		d.launch("log_probs_f32", line(r), vocabularyBlock(t.Logits.Len/r),
			ptr(t.LSE), ptr(t.LogProb), ptr(t.Entropy), ptr(t.Logits), ptr(t.Scale), ptr(t.Targets), i32(r), i32(t.Logits.Len/r))
	}
}
