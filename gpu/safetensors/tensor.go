package safetensors

import (
	"fmt"
	"unsafe"
)

// Tensor is a named array of numbers. Its bytes are in C order, little-endian.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int
	Data  []byte // a view; valid until the [File] is closed
	File  string // where it was read from; used in errors only

	pending []float32 // set by FromFloat32s: converted while it is written
}

// FromFloat32s makes a tensor of values for [Write] or [Save]. With type F32 its Data
// is a view of values; BF16 and F16 are rounded to nearest even while they are
// written, so that no second copy of a model is made, and have no Data.
// Other types panic: they are a mistake in the program.
func FromFloat32s(name string, t Type, shape []int, values []float32) Tensor {
	out := Tensor{Name: name, Type: t, Shape: shape}
	switch t {
	case F32:
		if len(values) > 0 {
			out.Data = unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
		}
	case BF16, F16:
		out.pending = values
	case Bool, U8, I8, F8E5M2, F8E4M3, F8E8M0, U16, I16, U32, I32, C64, U64, I64, F64:
		fallthrough
	default:
		panic("safetensors: float32 values cannot be written as " + string(t))
	}
	return out
}

// Len is the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, dim := range t.Shape {
		n *= dim
	}
	return n
}

// size is the bytes that the tensor takes in a file.
func (t Tensor) size() int {
	if t.pending != nil {
		return len(t.pending) * t.Type.Size()
	}
	return len(t.Data)
}

// Read converts len(dst) elements from the given one on to float32. BF16, F16 and
// F32 are exact, F64 is rounded; other types are an error, as is a file that
// shrank beneath its mapping.
func (t Tensor) Read(dst []float32, from int) error {
	size := t.Type.Size()
	if size == 0 || from < 0 || from > len(t.Data)/size || len(dst) > len(t.Data)/size-from {
		return fmt.Errorf("%s: tensor %q: elements %d to %d of %d", t.File, t.Name, from, from+len(dst), t.Len())
	}
	src := t.Data[from*size : (from+len(dst))*size]
	known := true
	err := Guard(func() { known = decode(dst, src, t.Type) })
	if err != nil {
		return t.wrong("%v", err)
	}
	if !known {
		return t.wrong("%s cannot be converted to float32", t.Type)
	}
	return nil
}

// CheckFinite reports the first NaN or infinity of a BF16, F16, F32 or F64 tensor,
// with its index. Other types have none.
func (t Tensor) CheckFinite() error {
	bad := -1
	err := Guard(func() { bad = firstNonFinite(t.Data, t.Type) })
	if err != nil {
		return t.wrong("%v", err)
	}
	if bad >= 0 {
		return t.wrong("element %d is NaN or infinite", bad)
	}
	return nil
}

func (t Tensor) wrong(format string, args ...any) error {
	return &FormatError{File: t.File, Tensor: t.Name, Reason: fmt.Sprintf(format, args...)}
}
