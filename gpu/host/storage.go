package host

import (
	"fmt"
	"math"
	"unsafe"

	"understudy/gpu"
	"understudy/gpu/half"
)

// memory is an allocation: one of the slices, by its type.
type memory struct {
	f32   []float32
	f16   []uint16 // BF16 and F16
	i32   []int32
	owned bool // counted against the budget
}

// Bytes is the size of the allocation.
func (m *memory) Bytes() int64 {
	return int64(len(m.f32))*4 + int64(len(m.f16))*2 + int64(len(m.i32))*4
}

func floats(b gpu.Buffer) []float32 {
	if b.None() {
		return nil
	}
	return b.Memory.(*memory).f32[b.Off : b.Off+b.Len]
}

func halves(b gpu.Buffer) []uint16 { return b.Memory.(*memory).f16[b.Off : b.Off+b.Len] }

func ints(b gpu.Buffer) []int32 {
	if b.None() {
		return nil
	}
	return b.Memory.(*memory).i32[b.Off : b.Off+b.Len]
}

// Alloc gives n zeroed elements. It refuses what does not fit in Options.Memory.
func (d *Device) Alloc(t gpu.DType, n int) (gpu.Buffer, error) {
	if n < 0 || n > math.MaxInt/t.Size() {
		return gpu.Buffer{}, fmt.Errorf("host device: allocate %d elements of %d bytes", n, t.Size())
	}
	bytes := int64(n) * int64(t.Size())
	if d.budget > 0 && bytes > d.budget-d.allocated {
		return gpu.Buffer{}, fmt.Errorf("host device: allocate %d bytes: only %d of its %d are free", bytes, d.budget-d.allocated, d.budget)
	}
	d.allocated += bytes
	m := &memory{owned: true}
	switch t {
	case gpu.F32:
		m.f32 = hugePages(make([]float32, n))
	case gpu.BF16, gpu.F16:
		m.f16 = hugePages(make([]uint16, n))
	case gpu.I32:
		m.i32 = make([]int32, n)
	}
	return gpu.Buffer{Memory: m, Type: t, Len: n}, nil
}

// Map gives a buffer over data itself when it is aligned, over a copy otherwise. Mapped
// memory does not count against Options.Memory, a copy does.
func (d *Device) Map(t gpu.DType, data []byte) (gpu.Buffer, error) {
	n := len(data) / t.Size()
	if n*t.Size() != len(data) {
		return gpu.Buffer{}, fmt.Errorf("host device: map %d bytes as elements of %d", len(data), t.Size())
	}
	at := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(at)%uintptr(t.Size()) != 0 {
		b, err := d.Alloc(t, n)
		if err != nil {
			return b, fmt.Errorf("copy data that is not aligned: %w", err)
		}
		copy(unsafe.Slice((*byte)(b.Memory.(*memory).start()), len(data)), data)
		return b, nil
	}
	m := &memory{}
	switch t {
	case gpu.F32:
		m.f32 = unsafe.Slice((*float32)(at), n)
	case gpu.BF16, gpu.F16:
		m.f16 = unsafe.Slice((*uint16)(at), n)
	case gpu.I32:
		m.i32 = unsafe.Slice((*int32)(at), n)
	}
	return gpu.Buffer{Memory: m, Type: t, Len: n}, nil
}

// start is the address of the first element.
func (m *memory) start() unsafe.Pointer {
	switch {
	case m.f32 != nil:
		return unsafe.Pointer(unsafe.SliceData(m.f32))
	case m.f16 != nil:
		return unsafe.Pointer(unsafe.SliceData(m.f16))
	default:
		return unsafe.Pointer(unsafe.SliceData(m.i32))
	}
}

// Free gives the memory of Alloc back to the garbage collector and to the budget.
func (d *Device) Free(b gpu.Buffer) {
	if b.None() {
		return
	}
	m := b.Memory.(*memory)
	if m.owned {
		d.allocated -= m.Bytes()
	}
	*m = memory{}
}

// form is a weight's matrix and, once a product of few rows has asked for them, its panels.
type form struct {
	matrix
	panels panels
	stale  []float32 // memory of panels that no longer hold
}

// NewWeight makes b (n,k) multipliable. Nothing is packed before it pays.
func (d *Device) NewWeight(b gpu.Buffer, n, k int) gpu.Weight {
	if b.Len != n*k {
		panic(fmt.Sprintf("host: a weight of %d elements is not %d×%d", b.Len, n, k))
	}
	return gpu.Weight{Buffer: b, N: n, K: k, Form: &form{matrix: matrixOf(b, n, k)}}
}

// Changed drops the panels, and keeps their memory for the next.
func (d *Device) Changed(w gpu.Weight) {
	if f := w.Form.(*form); f.panels.words != nil {
		f.panels, f.stale = panels{}, f.panels.words
	}
}

// matrixOf is b as (rows,cols).
func matrixOf(b gpu.Buffer, rows, cols int) matrix {
	m := matrix{kind: b.Type, rows: rows, cols: cols}
	if b.Type == gpu.F32 {
		m.f32 = floats(b)
	} else {
		m.f16 = halves(b)
	}
	return m
}

// Upload copies src into dst, which is F32.
func (d *Device) Upload(dst gpu.Buffer, src []float32) { copy(floats(dst)[:len(src)], src) }

// UploadInts copies src into dst, which is I32.
func (d *Device) UploadInts(dst gpu.Buffer, src []int32) { copy(ints(dst)[:len(src)], src) }

// Download copies from src, widened.
func (d *Device) Download(dst []float32, src gpu.Buffer) error {
	d.spans(len(dst), func(from, end int) { widen(dst[from:end], src.Slice(from, end)) })
	return nil
}

// widen copies a buffer of any float type.
func widen(dst []float32, src gpu.Buffer) {
	switch src.Type {
	case gpu.F32:
		copy(dst, floats(src))
	case gpu.BF16:
		for i, x := range halves(src) {
			dst[i] = half.FromBF16(x)
		}
	case gpu.F16:
		for i, x := range halves(src) {
			dst[i] = half.FromF16(x)
		}
	case gpu.I32:
		panic("host: floats wanted of a buffer of indices")
	}
}

// Sync has nothing to wait for: operations are done when they return.
func (d *Device) Sync() error { return nil }
