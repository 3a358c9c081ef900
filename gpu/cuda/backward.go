package cuda

import (
	"unsafe"

	"understudy/gpu"
)

// EmbedBackward does dtable[tokens[i]] += dy[i] in the order of i. Block i works for the first
// row of its token and adds all that have the same:
// embed_backward_f32, _bf16 (dtable, dy, tokens, r, c).
func (d *Device) EmbedBackward(dtable, dy, tokens gpu.Buffer) {
	if r := tokens.Len; r > 0 && d.oneType("EmbedBackward", dtable, dy) {
		d.launch("embed_backward"+suffix(dy.Type), line(r), block(threads), ptr(dtable), ptr(dy), ptr(tokens), i32(r), i32(dy.Len/r))
	}
}

// Shares of the rows whose gradients of a gain are summed apart, so that narrow norms, too, fill a
// card: heads of queries have 128 columns and a million rows.
const (
	rowsOfShare = 256
	mostShares  = 256
)

// RMSNormBackward does dx += rstd·(dn − n·mean(dn·n)), dw += Σ_rows dy·n with n = x·rstd,
// dn = dy·w: rms_norm_backward_f32, _bf16 (dx, dy, x, w, rstd, r, c), a block a row, and
// rms_norm_backward_w_f32, _bf16 (sums, dy, x, rstd, r, c), a block 32 columns of a share of the rows; then
// add_rows_f32(dw, sums, shares, c).
func (d *Device) RMSNormBackward(dx, dw, dy, x, w, rstd gpu.Buffer) {
	r, c := rstd.Len, w.Len
	if r == 0 || !d.oneType("RMSNormBackward", dx, dy, x) {
		return
	}
	d.launch("rms_norm_backward"+suffix(x.Type), line(r), rowBlock(c), ptr(dx), ptr(dy), ptr(x), ptr(w), ptr(rstd), i32(r), i32(c))
	if dw.None() {
		return
	}
	shares := min(ceil(r, rowsOfShare), mostShares)
	sums, err := d.scratchOf(scratchSums, shares*c)
	if err != nil {
		d.refuse(err)
		return
	}
	d.launch("rms_norm_backward_w"+suffix(x.Type), plane(ceil(c, 32), shares), block(threads), ptr(sums), ptr(dy), ptr(x), ptr(rstd), i32(r), i32(c))
	d.launch("add_rows_f32", line(ceil(c, threads)), block(threads), ptr(dw), ptr(sums), i32(shares), i32(c))
}

// SwiGLUBackward is the gradient of SwiGLU.
func (d *Device) SwiGLUBackward(dgate, dup, dh, gate, up gpu.Buffer) {
	if d.activations("SwiGLUBackward", dgate, dup, dh, gate, up) {
		d.launch("swiglu_backward"+suffix(dh.Type), elements(dh.Len), block(threads),
			ptr(dgate), ptr(dup), ptr(dh), ptr(gate), ptr(up), i64(dh.Len))
	}
}

// LogProbsBackward turns logits into their gradient, a block a row:
// log_probs_backward_f32(logits, scale, lse, targets, entropy, dlogprob, dentropy or 0, r, v).
func (d *Device) LogProbsBackward(t gpu.TokenLoss, dlogprob, dentropy gpu.Buffer) {
	if r := t.LSE.Len; r > 0 && d.only("LogProbsBackward", []gpu.Buffer{t.Logits}, gpu.F32) {
		d.launch("log_probs_backward_f32", line(r), vocabularyBlock(t.Logits.Len/r), ptr(t.Logits), ptr(t.Scale), ptr(t.LSE), ptr(t.Targets),
			ptr(t.Entropy), ptr(dlogprob), ptr(dentropy), i32(r), i32(t.Logits.Len/r))
	}
}

// squarePiece is the elements that a block of square_sum adds.
const squarePiece = 1 << 14

// sumsOf is the floats of scratch that SquareSum needs for n elements.
func sumsOf(n int) int { return 2 * ceil(n, squarePiece) }

// SquareSum is Σ x² in float64: square_sum_f32, _bf16, _f16 (sums f64, x, n i64), a block a piece
// of 16384; sum_f64(sums, n i32) adds the pieces in order, into the first.
func (d *Device) SquareSum(x gpu.Buffer) (float64, error) {
	if x.Len == 0 {
		return 0, nil
	}
	pieces := ceil(x.Len, squarePiece)
	sums, err := d.scratchOf(scratchSums, sumsOf(x.Len))
	if err != nil {
		return 0, err
	}
	d.launch("square_sum"+suffix(x.Type), line(pieces), block(threads), ptr(sums), ptr(x), i64(x.Len))
	d.launch("sum_f64", line(1), block(threads), ptr(sums), i32(pieces))
	var total float64
	err = d.download(unsafe.Slice((*byte)(unsafe.Pointer(&total)), 8), address(sums))
	return total, err
}

// AdamW is one step of the optimiser:
// adamw_f32(p, g, m, v, n i64, gradscale, beta1, 1−beta1, beta2, 1−beta2, keep, rate, 1/bias2, eps)
// with keep = 1−lr·decay and rate = lr/bias1; with moments in BF16 adamw_bf16, and the seed of
// their rounding, i64, at the end.
func (d *Device) AdamW(u gpu.AdamWUpdate) {
	args := []uint64{
		ptr(u.P), ptr(u.G), ptr(u.M), ptr(u.V), i64(u.P.Len),
		f32(u.GradScale), f32(u.Beta1), f32(1 - u.Beta1), f32(u.Beta2), f32(1 - u.Beta2),
		f32(1 - float32(u.LR*u.Decay)), f32(u.LR / u.Bias1), f32(1 / u.Bias2), f32(u.Eps),
	}
	if u.M.Type == gpu.BF16 {
		args = append(args, u.Seed)
	}
	d.launch("adamw"+suffix(u.M.Type), elements(u.P.Len), block(threads), args...)
}

// KeepsHalfMoments says that AdamW takes moments in BF16 (gpu.HalfMoments).
func (d *Device) KeepsHalfMoments() {}
