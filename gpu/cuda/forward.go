package cuda

import (
	"fmt"
	"slices"

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

// types is the suffix of a kernel that reads x and writes y.
func types(y, x gpu.DType) string {
	if y == x {
		return suffix(x)
	}
	return suffix(x) + suffix(y)
}

// ActivationType is BF16 where products round their factors to it: what is kept for them is rounded once, as it
// is made, and not whenever it is read.
func (o Options) ActivationType() gpu.DType { return o.Products }

// only refuses an operation on buffers of other types than these.
func (d *Device) only(what string, list []gpu.Buffer, types ...gpu.DType) bool {
	for _, b := range list {
		if !b.None() && !slices.Contains(types, b.Type) {
			d.refuse(fmt.Errorf("cuda device: %s: a buffer of %v, where %v is wanted", what, b.Type, types[0]))
			return false
		}
	}
	return true
}

// activations refuses an operation on buffers of another type than ActivationType.
func (d *Device) activations(what string, list ...gpu.Buffer) bool {
	return d.only(what, list, d.ActivationType())
}

// floats refuses an operation on buffers that are neither activations nor F32.
func (d *Device) floats(what string, list ...gpu.Buffer) bool {
	return d.only(what, list, d.ActivationType(), gpu.F32)
}

// oneType refuses an operation on buffers of more than one type.
func (d *Device) oneType(what string, list ...gpu.Buffer) bool {
	return d.only(what, list, list[0].Type)
}

// Zero clears y.
func (d *Device) Zero(y gpu.Buffer) {
	d.indicesChanged(y, nil)
	if y.Len > 0 {
		d.push(command{kind: filling, n: 3, args: [maxArgs]uint64{address(y), 0, bytesIn(y)}})
	}
}

// Copy does y = x, converting.
func (d *Device) Copy(y, x gpu.Buffer) {
	d.indicesChanged(y, nil)
	switch {
	case y.Len == 0:
	case x.Type == y.Type:
		d.push(command{kind: copying, n: 3, args: [maxArgs]uint64{address(y), address(x), bytesIn(y)}})
	default:
		d.convert(y, x)
	}
}

// convert does y = x, of another float type, to the nearest, ties to even:
// convert_bf16_f32, _f16_f32, _f32_bf16, _f16_bf16 (y, x, n i64).
func (d *Device) convert(y, x gpu.Buffer) {
	d.launch("convert"+types(y.Type, x.Type), elements(x.Len), block(threads), ptr(y), ptr(x), i64(x.Len))
}

// Add does y = a + b.
func (d *Device) Add(y, a, b gpu.Buffer) {
	if d.only("Add", []gpu.Buffer{y, a, b}, gpu.F32) {
		d.launch("add_f32", elements(y.Len), block(threads), ptr(y), ptr(a), ptr(b), i64(y.Len))
	}
}

// AddScaled does y += s·x: add_scaled_f32, add_scaled_f32_bf16.
func (d *Device) AddScaled(y gpu.Buffer, s float32, x gpu.Buffer) {
	d.launch("add_scaled"+types(y.Type, x.Type), elements(y.Len), block(threads), ptr(y), ptr(x), i64(y.Len), f32(s))
}

// Gather does y (M,C)[i] = x (R,C)[rows[i]], a block a row.
func (d *Device) Gather(y, x, rows gpu.Buffer) { d.gather(y, x, rows) }

// Embed does y (R,C)[i] = table (V,C)[tokens[i]].
func (d *Device) Embed(y, table, tokens gpu.Buffer) { d.gather(y, table, tokens) }

// gather_f32, _bf16, _bf16_f32, _f16_f32 (y, x, rows, m i32, c i32): a block a row.
func (d *Device) gather(y, x, rows gpu.Buffer) {
	if rows.Len > 0 {
		d.launch("gather"+types(y.Type, x.Type), line(rows.Len), block(threads), ptr(y), ptr(x), ptr(rows), i32(rows.Len), i32(y.Len/rows.Len))
	}
}

// Scatter does y (S,C)[rows[i]] = x (R,C)[i], a block a row.
func (d *Device) Scatter(y, x, rows gpu.Buffer) {
	if rows.Len > 0 && d.oneType("Scatter", y, x) {
		d.launch("scatter"+suffix(x.Type), line(rows.Len), block(threads), ptr(y), ptr(x), ptr(rows), i32(rows.Len), i32(x.Len/rows.Len))
	}
}

// RMSNorm does y (R,C) = x·rstd·w, a block a row: rms_norm_f32, _f32_bf16, _bf16 (y, rstd, x, w, r, c, eps). When
// the last command is the Add that makes x, as in a residual stream, both are one:
// add_rms_norm_f32, _f32_bf16 (y, rstd, x, a, b, w, r, c, eps), which has the same bits and reads x once less.
func (d *Device) RMSNorm(y, rstd, x, w gpu.Buffer, eps float32) {
	if !d.activations("RMSNorm", y) || !d.floats("RMSNorm", x) || !d.only("RMSNorm", []gpu.Buffer{rstd, w}, gpu.F32) {
		return
	}
	if a, b, ok := d.sumOf(y, rstd, x, w); ok && rstd.Len > 0 {
		d.list = d.list[:len(d.list)-1]
		d.launch("add_rms_norm"+types(y.Type, x.Type), line(rstd.Len), rowBlock(w.Len),
			ptr(y), ptr(rstd), ptr(x), a, b, ptr(w), i32(rstd.Len), i32(w.Len), f32(eps))
		return
	}
	if rstd.Len > 0 {
		d.launch("rms_norm"+types(y.Type, x.Type), line(rstd.Len), rowBlock(w.Len), ptr(y), ptr(rstd), ptr(x), ptr(w), i32(rstd.Len), i32(w.Len), f32(eps))
	}
}

// sumOf gives the terms of x when it is what the last command adds and its norm, (y, rstd) of (x, w), can be one with
// it. A term may be y itself: a block reads its row before it writes it.
func (d *Device) sumOf(y, rstd, x, w gpu.Buffer) (a, b uint64, ok bool) {
	last := d.last("add_f32", 0)
	if last == nil || x.Type != gpu.F32 || last.args[0] != ptr(x) || last.args[3] != i64(x.Len) || clash([]span{reach(x)}, reach(w)) {
		return 0, 0, false
	}
	for _, term := range last.args[1:3] {
		from := span{term, reach(x).bytes}
		if clash([]span{reach(rstd)}, from) || clash([]span{reach(y)}, from) && (term != ptr(y) || y.Type != x.Type) {
			return 0, 0, false
		}
	}
	return last.args[1], last.args[2], true
}

// rowBlock is the threads for a row of c elements: whole warps, by c alone.
func rowBlock(c int) dim { return block(min(threads, ceil(c, 32)*32)) }

// RoPE turns x (R,heads,D) in place, a block a row: rope_f32, rope_bf16 (x, table, positions, r, heads, d, inverse).
// After the turn of queries, and the norms of queries and keys before it, all of it is one (heads.go).
func (d *Device) RoPE(x, table, positions gpu.Buffer, width int, inverse bool) {
	if r := positions.Len; r > 0 && d.activations("RoPE", x) && (inverse || !d.joinHeads(x, table, positions, width)) {
		d.launch("rope"+suffix(x.Type), line(r), block(threads),
			ptr(x), ptr(table), ptr(positions), i32(r), i32(x.Len/r/width), i32(width), flag(inverse))
	}
}

// SwiGLU does h = gate·sigmoid(gate)·up.
func (d *Device) SwiGLU(h, gate, up gpu.Buffer) {
	if d.activations("SwiGLU", h, gate, up) {
		d.launch("swiglu"+suffix(h.Type), elements(h.Len), block(threads), ptr(h), ptr(gate), ptr(up), i64(h.Len))
	}
}

// vocabularyBlock is the threads for a row of v logits, by v alone: many, as there are few rows.
func vocabularyBlock(v int) dim { return block(min(4*threads, ceil(v, 32)*32)) }

// LogProbs writes LSE and, when there are targets, LogProb and Entropy, a block a row:
// log_probs_f32(lse, logprob, entropy, logits, scale, targets or 0, r, v).
func (d *Device) LogProbs(t gpu.TokenLoss) {
	if r := t.LSE.Len; r > 0 && d.only("LogProbs", []gpu.Buffer{t.Logits}, gpu.F32) {
		d.launch("log_probs_f32", line(r), vocabularyBlock(t.Logits.Len/r),
			ptr(t.LSE), ptr(t.LogProb), ptr(t.Entropy), ptr(t.Logits), ptr(t.Scale), ptr(t.Targets), i32(r), i32(t.Logits.Len/r))
	}
}
