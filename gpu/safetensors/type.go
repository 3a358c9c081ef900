package safetensors

import (
	"fmt"
	"math"
)

// Type is a tensor's element type, as the header writes it.
type Type string

// The element types that are recognised. [Tensor.Read] converts BF16, F16, F32 and
// F64; the others can be viewed as bytes and copied.
const (
	Bool   Type = "BOOL"
	U8     Type = "U8"
	I8     Type = "I8"
	F8E5M2 Type = "F8_E5M2"
	F8E4M3 Type = "F8_E4M3"
	F8E8M0 Type = "F8_E8M0"
	U16    Type = "U16"
	I16    Type = "I16"
	F16    Type = "F16"
	BF16   Type = "BF16"
	U32    Type = "U32"
	I32    Type = "I32"
	F32    Type = "F32"
	C64    Type = "C64"
	U64    Type = "U64"
	I64    Type = "I64"
	F64    Type = "F64"
)

// Size is the bytes of one element, or 0 for a type that is not recognised.
func (t Type) Size() int {
	switch t {
	case Bool, U8, I8, F8E5M2, F8E4M3, F8E8M0:
		return 1
	case U16, I16, F16, BF16:
		return 2
	case U32, I32, F32:
		return 4
	case U64, I64, F64, C64:
		return 8
	}
	return 0
}

// maxDims bounds a shape. The deepest tensors in use have five dimensions.
const maxDims = 32

// bytesOf is the bytes of a tensor, or an error when the shape is negative, too
// deep, or its size overflows.
func bytesOf(t Type, shape []int) (int, error) {
	size := t.Size()
	if size == 0 {
		return 0, fmt.Errorf("element type %q is not known", string(t))
	}
	if len(shape) > maxDims {
		return 0, fmt.Errorf("shape has %d dimensions, more than %d", len(shape), maxDims)
	}
	n, empty := size, false
	for _, dim := range shape {
		switch {
		case dim < 0:
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		case dim == 0:
			empty = true
		case n > math.MaxInt64/dim:
			return 0, fmt.Errorf("shape %v overflows", shape)
		default:
			n *= dim
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}
