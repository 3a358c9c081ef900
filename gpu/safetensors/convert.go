package safetensors

import (
	"encoding/binary"
	"math"

	"understudy/gpu/half"
)

// decode converts src to float32. It is false for a type without a conversion.
func decode(dst []float32, src []byte, t Type) bool {
	le := binary.LittleEndian
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(src[4*i:]))
		}
	case BF16:
		src = src[:2*len(dst)]
		for i := 0; i+1 < len(src); i += 2 {
			dst[i/2] = math.Float32frombits(uint32(src[i+1])<<24 | uint32(src[i])<<16)
		}
	case F16:
		for i := range dst {
			dst[i] = half.FromF16(le.Uint16(src[2*i:]))
		}
	case F64:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(le.Uint64(src[8*i:])))
		}
	case Bool, U8, I8, F8E5M2, F8E4M3, F8E8M0, U16, I16, U32, I32, C64, U64, I64:
		return false
	default:
		return false
	}
	return true
}

// encode converts src to BF16 or F16, rounding to nearest even.
func encode(dst []byte, src []float32, t Type) {
	convert := half.ToF16
	if t == BF16 {
		convert = half.ToBF16
	}
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], convert(v))
	}
}

// firstNonFinite is the index of the first element whose exponent is all ones, or -1.
func firstNonFinite(data []byte, t Type) int {
	var mask, one uint64 // the exponent, and 1, of every element of a word
	switch t {
	case F64:
		mask, one = 0x7ff<<52, 1
	case F32:
		mask, one = 0xff<<23*(1<<32+1), 1<<32+1
	case BF16:
		mask, one = 0x7f80*0x0001000100010001, 0x0001000100010001
	case F16:
		mask, one = 0x7c00*0x0001000100010001, 0x0001000100010001
	case Bool, U8, I8, F8E5M2, F8E4M3, F8E8M0, U16, I16, U32, I32, C64, U64, I64:
		return -1
	default:
		return -1
	}
	size := t.Size()
	lanes := exponents{mask, one, one << (8*size - 1)}
	i := 0
	for i+8 <= len(data) && !lanes.allOnes(binary.LittleEndian.Uint64(data[i:])) {
		i += 8
	}
	for ; i+size <= len(data); i += size { // the last word, or the one with the bad element
		var alone [8]byte
		copy(alone[:], data[i:i+size])
		if lanes.allOnes(binary.LittleEndian.Uint64(alone[:])) {
			return i / size
		}
	}
	return -1
}

// exponents looks at all elements of a word at once: the bits of their exponents, their
// lowest bits, their highest.
type exponents struct{ mask, low, high uint64 }

// allOnes reports whether an element's exponent is all ones.
func (e exponents) allOnes(word uint64) bool {
	rest := word&e.mask ^ e.mask // 0 where it is
	return (rest-e.low)&^rest&e.high != 0
}
