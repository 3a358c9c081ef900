package cuda

import (
	"fmt"

	"understudy/gpu"
)

// weight is what a device keeps beside a weight's buffer: the elements rounded to BF16, when
// products want them so and the buffer holds others, as the master weights of training are.
type weight struct {
	rounded gpu.Buffer
	stale   bool
}

// NewWeight makes b (n,k) multipliable. Memory for a rounded copy is taken here, before any
// step.
func (d *Device) NewWeight(b gpu.Buffer, n, k int) gpu.Weight {
	if b.Len != n*k {
		panic("cuda: a weight's buffer has another size than its shape")
	}
	w := gpu.Weight{Buffer: b, N: n, K: k}
	if d.Products != gpu.BF16 || b.Type == gpu.BF16 {
		return w
	}
	rounded, err := d.allocate(gpu.BF16, b.Len)
	if err != nil {
		d.refuse(err)
		return w
	}
	form, owner := &weight{rounded: rounded, stale: true}, b.Memory.(*memory)
	d.weights[owner] = append(d.weights[owner], form)
	w.Form = form
	return w
}

// Changed says that w's buffer was written: its copy is made again at the next product.
func (d *Device) Changed(w gpu.Weight) {
	if form, ok := w.Form.(*weight); ok {
		form.stale = true
	}
}

// rewrite says that no rounded copy can be relied on: what was to write them may not have run.
func (d *Device) rewrite() {
	for _, forms := range d.weights {
		for _, form := range forms {
			form.stale = true
		}
	}
}

// factor is w as products read it.
func (d *Device) factor(w gpu.Weight) gpu.Buffer {
	form, ok := w.Form.(*weight)
	if !ok {
		return w.Buffer
	}
	if form.stale {
		form.stale = false
		d.convert(form.rounded, w.Buffer)
	}
	return form.rounded
}

// rounded is x in BF16, in scratch memory.
func (d *Device) rounded(which int, x gpu.Buffer) (gpu.Buffer, bool) {
	y, err := d.scratchOf(which, (x.Len+1)/2)
	if err != nil {
		d.refuse(err)
		return y, false
	}
	y.Type, y.Off, y.Len = gpu.BF16, 0, x.Len
	d.convert(y, x)
	return y, true
}

// operands gives both factors of a product as its kernels read them, in BF16 where Products asks for that; false where
// they cannot be had, which is refused: no kernel may take one type for another.
func (d *Device) operands(what string, a, b gpu.Buffer) (left, right gpu.Buffer, ok bool) {
	if d.Products != gpu.BF16 {
		return a, b, true // kernels widen weights as they read them
	}
	ok = true
	if a.Type == gpu.F32 {
		a, ok = d.rounded(scratchA, a)
	}
	if ok && b.Type == gpu.F32 {
		b, ok = d.rounded(scratchB, b)
	}
	return a, b, ok && d.only(what, []gpu.Buffer{a, b}, gpu.BF16)
}

// Tiles of products in float32 (kernels/matmul.cu): rows and columns that a block computes. Up to
// fewRows rows, small ones keep more of the card busy.
const (
	gemmTile = 64
	fewTile  = 16
	fewRows  = 64
)

// Products on tensor cores (kernels/matmul_mma.cu) have the same bits in every tile; which is the
// fastest depends on the rows, and on how many blocks the card can run at once.
const mostMMARows = 32 // that matmul_mma_few takes

// mmaRows is the rows of a block of matmul_mma_few.
func mmaRows(r int) int {
	for _, tile := range []int{8, 16} {
		if r <= tile {
			return tile
		}
	}
	return mostMMARows
}

// multiplyFew does y (R,N) = x·wᵀ for few rows, in fast mode, too: cuBLASLt, whose sums are not split here, has too few
// blocks of them for a card (so one reckons; no card has shown it yet). When the last command multiplies the same rows
// with another weight, or two, it becomes one with it, as of queries, keys and values:
// matmul_mma_few8, 16, 32_f32, _bf16 (y0, y1, y2, w0, w1, w2, x, rows, n0, n1, n2, k).
func (d *Device) multiplyFew(y, x, w gpu.Buffer, r, n, k int) {
	tile := mmaRows(r)
	name := fmt.Sprint("matmul_mma_few", tile, suffix(y.Type))
	if last := d.last(name, 0); last != nil && last.args[6] == ptr(x) && last.args[7] == i32(r) && last.args[11] == i32(k) {
		if i := placeAmong(last, y, w); i > 0 {
			last.args[i], last.args[3+i], last.args[8+i] = ptr(y), ptr(w), i32(n)
			last.grid[0] += uint32(ceil(n, 16)) //nolint:gosec // a part of the vocabulary
			return
		}
	}
	d.launch(name, plane(ceil(n, 16), ceil(r, tile)), block(128), ptr(y), 0, 0, ptr(w), 0, 0, ptr(x), i32(r), i32(n), 0, 0, i32(k))
}

// placeAmong is where matmul_mma_few takes a further weight, for y: 1 or 2; 0 where it takes none, or has to run first.
func placeAmong(few *command, y, w gpu.Buffer) int {
	rows, k := int64(few.args[7]), int64(few.args[11]) //nolint:gosec // not negative
	for i := range 3 {
		n := int64(few.args[8+i]) //nolint:gosec // not negative
		if n == 0 {
			return i
		}
		result, weight := span{few.args[i], rows * n * int64(y.Type.Size())}, span{few.args[3+i], 2 * n * k}
		if clash([]span{reach(y)}, result, weight) || clash([]span{result}, reach(w)) {
			return 0
		}
	}
	return 0
}

// launchMMA computes c (cols,m), of the type that the suffix kind says, in tiles of 128×128, or in small ones
// where those are too few.
func (d *Device) launchMMA(name, kind string, m, cols int, args ...uint64) {
	if large := plane(ceil(m, 128), ceil(cols, 128)); int(large[0]*large[1]) >= d.processors {
		d.launch(name+kind, large, block(256), args...)
		return
	}
	d.launch(name+"_small"+kind, plane(ceil(m, 32), ceil(cols, 64)), block(128), args...)
}

// MatMul does y (R,N) = x (R,K)·wᵀ.
func (d *Device) MatMul(y, x gpu.Buffer, w gpu.Weight) {
	r := x.Len / w.K
	if r == 0 || !d.floats("MatMul", y, x) {
		return
	}
	left, right, ok := d.operands("MatMul", x, d.factor(w))
	cores := d.Products == gpu.BF16
	switch {
	case !ok:
	case cores && r <= mostMMARows:
		d.multiplyFew(y, left, right, r, w.N, w.K)
	case d.multiply(shape{transA: true, m: w.N, n: r, k: w.K, kind: right.Type, out: y.Type}, y, right, left, false):
	case cores:
		d.launchMMA("matmul_mma", suffix(y.Type), w.N, r, ptr(y), ptr(left), ptr(right), i32(r), i32(w.N), i32(w.K))
	case r <= fewRows: // the same bits
		d.launch("matmul_few"+suffix(right.Type), plane(ceil(w.N, fewTile), ceil(r, fewTile)), block(threads),
			ptr(y), ptr(left), ptr(right), i32(r), i32(w.N), i32(w.K))
	default:
		d.launch("matmul"+suffix(right.Type), plane(ceil(w.N, gemmTile), ceil(r, gemmTile)), block(threads),
			ptr(y), ptr(left), ptr(right), i32(r), i32(w.N), i32(w.K))
	}
}

// MatMulBackX does dx (R,K) = dy (R,N)·w, or +=.
func (d *Device) MatMulBackX(dx, dy gpu.Buffer, w gpu.Weight, add bool) {
	r := dy.Len / w.N
	if r == 0 || !d.floats("MatMulBackX", dx, dy) {
		return
	}
	left, right, ok := d.operands("MatMulBackX", dy, d.factor(w))
	switch {
	case !ok:
	case d.multiply(shape{m: w.K, n: r, k: w.N, kind: right.Type, out: dx.Type}, dx, right, left, add):
	case d.Products == gpu.BF16:
		d.launchMMA("matmul_mma_back_x", suffix(dx.Type), w.K, r, ptr(dx), ptr(left), ptr(right), i32(r), i32(w.N), i32(w.K), flag(add))
	default:
		d.launch("matmul_back_x"+suffix(right.Type), plane(ceil(w.K, gemmTile), ceil(r, gemmTile)), block(threads),
			ptr(dx), ptr(left), ptr(right), i32(r), i32(w.N), i32(w.K), flag(add))
	}
}

// MatMulBackW does dw (N,K) += dyᵀ·x.
func (d *Device) MatMulBackW(dw, dy, x gpu.Buffer, rows int) {
	if rows == 0 || !d.floats("MatMulBackW", dy, x) || !d.only("MatMulBackW", []gpu.Buffer{dw}, gpu.F32) {
		return
	}
	n, k := dy.Len/rows, x.Len/rows
	left, right, ok := d.operands("MatMulBackW", dy, x)
	switch {
	case !ok:
	case d.multiply(shape{transB: true, m: k, n: n, k: rows, kind: right.Type}, dw, right, left, true):
	case d.Products == gpu.BF16:
		d.launchMMA("matmul_mma_back_w", "", k, n, ptr(dw), ptr(left), ptr(right), i32(rows), i32(n), i32(k))
	default:
		d.launch("matmul_back_w_f32", plane(ceil(k, gemmTile), ceil(n, gemmTile)), block(threads),
			ptr(dw), ptr(left), ptr(right), i32(rows), i32(n), i32(k))
	}
}
