package host

import (
	"unsafe"

	"understudy/gpu"
	"understudy/gpu/half"
)

// matrix is a row-major matrix as it lies in memory.
type matrix struct {
	kind       gpu.DType // F32, BF16 or F16
	f32        []float32 // F32
	f16        []uint16  // BF16, F16
	rows, cols int
}

// operand is matrix B (k,n) of a product C = A·B, given out in panels: columns
// j·width..j·width+width-1, row after row, missing columns zero. A panel of bfloat16 stays
// bfloat16, its halves interleaved (kernel.go); everything else is float32.
type operand struct {
	matrix
	transposed bool // the matrix is (n,k), as weights are
	width      int
}

func (b operand) k() int {
	if b.transposed {
		return b.cols
	}
	return b.rows
}

func (b operand) n() int {
	if b.transposed {
		return b.rows
	}
	return b.cols
}

// panels is the number of panels.
func (b operand) panels() int { return ceil(b.n(), b.width) }

// bf16 reports whether panels hold bfloat16.
func (b operand) bf16() bool { return b.kind == gpu.BF16 }

// stride is the float32 words of a panel's row.
func (b operand) stride() int {
	if b.bf16() {
		return b.width / 2
	}
	return b.width
}

// block is rows p0..p0+kc-1 of panel j; scratch has room for them.
func (b operand) block(kernels *kernels, j, p0, kc int, scratch []float32) unsafe.Pointer {
	b.packBlock(kernels, scratch[:kc*b.stride()], j, p0, kc)
	return unsafe.Pointer(&scratch[0])
}

// packBlock writes rows p0..p0+kc-1 of panel j.
func (b operand) packBlock(k *kernels, dst []float32, j, p0, kc int) {
	if kc == 0 {
		return
	}
	n0 := j * b.width
	n := min(b.width, b.n()-n0)
	if n < b.width {
		clear(dst)
	}
	switch {
	case b.bf16():
		b.packBF16(unsafe.Slice((*uint32)(unsafe.Pointer(&dst[0])), len(dst)), n0, n, p0, kc)
	case b.kind == gpu.F16:
		b.packF16(dst, n0, n, p0, kc)
	default:
		b.packF32(k, dst, n0, n, p0, kc)
	}
}

func (b operand) packF32(k *kernels, dst []float32, n0, n, p0, kc int) {
	if !b.transposed {
		if n == b.width {
			src := b.f32[p0*b.cols+n0 : (p0+kc-1)*b.cols+n0+n]
			k.gather(kc, &src[0], 4*b.cols, &dst[0])
			return
		}
		for p := range kc {
			from := (p0+p)*b.cols + n0
			copy(dst[p*b.width:], b.f32[from:from+n])
		}
		return
	}
	k.turn(dst, b.width, b.f32[n0*b.cols+p0:], b.cols, n, kc)
}

func (b operand) packF16(dst []float32, n0, n, p0, kc int) {
	for j := range n {
		for p := range kc {
			dst[p*b.width+j] = half.FromF16(b.f16[b.at(p0+p, n0+j)])
		}
	}
}

// packBF16 writes words of two columns: column j, and half a panel's width further on.
func (b operand) packBF16(dst []uint32, n0, n, p0, kc int) {
	half := b.width / 2
	if !b.transposed {
		row := make([]uint16, b.width)
		for p := range kc {
			b.narrow(row[:n], (p0+p)*b.cols+n0)
			for j, x := range row[:half] {
				dst[p*half+j] = uint32(x) | uint32(row[half+j])<<16
			}
		}
		return
	}
	low, high := make([]uint16, kc), make([]uint16, kc)
	for j := range min(half, n) {
		b.narrow(low, (n0+j)*b.cols+p0)
		clear(high)
		if half+j < n {
			b.narrow(high, (n0+half+j)*b.cols+p0)
		}
		for p, x := range low {
			dst[p*half+j] = uint32(x) | uint32(high[p])<<16
		}
	}
}

// narrow copies elements from index i on, rounded when the matrix is float32.
func (b matrix) narrow(dst []uint16, i int) {
	if b.kind == gpu.BF16 {
		copy(dst, b.f16[i:i+len(dst)])
		return
	}
	for j, x := range b.f32[i : i+len(dst)] {
		dst[j] = half.ToBF16(x)
	}
}

// at is the index of B's element (p,j).
func (b operand) at(p, j int) int {
	if b.transposed {
		return j*b.cols + p
	}
	return p*b.cols + j
}

// turn writes src (rows,cols), rows lds apart, as dst (cols,rows), rows ldd apart.
func (k *kernels) turn(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	eights := cols / 8
	for i := 0; i < rows; i += 8 {
		whole := 0
		if rows-i >= 8 && eights > 0 {
			_, _ = src[(i+7)*lds+8*eights-1], dst[(8*eights-1)*ldd+i+7]
			k.transpose(eights, &src[i*lds], 4*lds, &dst[i], 4*ldd)
			whole = 8 * eights
		}
		for j := i; j < min(i+8, rows); j++ {
			for p := whole; p < cols; p++ {
				dst[p*ldd+j] = src[j*lds+p]
			}
		}
	}
}
