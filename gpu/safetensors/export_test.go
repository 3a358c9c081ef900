package safetensors

import "unsafe"

// Float32s is an F32 tensor's elements without a copy. It is false for another type,
// and for a file whose padding leaves the tensor unaligned: use Read then.
func (t Tensor) Float32s() ([]float32, bool) { return view[float32](t, t.Type == F32) }

// Uint16s is the raw bits of a BF16 or F16 tensor's elements without a copy, under
// the conditions of Float32s.
func (t Tensor) Uint16s() ([]uint16, bool) {
	return view[uint16](t, t.Type == BF16 || t.Type == F16)
}

func view[E float32 | uint16](t Tensor, fits bool) ([]E, bool) {
	var e E
	if !fits || len(t.Data) == 0 {
		return nil, fits && t.pending == nil
	}
	p := unsafe.Pointer(&t.Data[0])
	if uintptr(p)%unsafe.Sizeof(e) != 0 {
		return nil, false
	}
	return unsafe.Slice((*E)(p), len(t.Data)/int(unsafe.Sizeof(e))), true
}
