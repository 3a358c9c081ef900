package safetensors

import (
	"encoding/binary"
	"math"
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
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(le.Uint16(src[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = fromHalf(le.Uint16(src[2*i:]))
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
	convert := toHalf
	if t == BF16 {
		convert = toBrain
	}
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], convert(v))
	}
}

// toBrain rounds to the nearest bfloat16; a NaN stays one, quiet.
func toBrain(v float32) uint16 {
	b := math.Float32bits(v)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// fromHalf is exact: every IEEE half is a float32.
func fromHalf(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // zero or subnormal: fraction · 2⁻²⁴
		v := math.Float32bits(float32(fraction) * (1.0 / (1 << 24)))
		return math.Float32frombits(sign | v)
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// toHalf rounds to the nearest IEEE half; what is too large becomes infinite.
func toHalf(v float32) uint16 {
	b := math.Float32bits(v)
	sign, abs := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case abs > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(abs>>13&0x3ff)
	case abs >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case abs < 0x38800000: // below 2⁻¹⁴: subnormal, in units of 2⁻²⁴
		units := math.RoundToEven(float64(math.Float32frombits(abs)) * (1 << 24))
		return sign | uint16(units)
	}
	rounded := abs + 0xfff + abs>>13&1
	return sign | uint16((rounded-112<<23)>>13)
}

// firstNonFinite is the index of the first element whose exponent is all ones, or -1.
func firstNonFinite(data []byte, t Type) int {
	le := binary.LittleEndian
	switch t {
	case F32:
		for i := 0; i+4 <= len(data); i += 4 {
			if le.Uint32(data[i:])&0x7f800000 == 0x7f800000 {
				return i / 4
			}
		}
	case F64:
		for i := 0; i+8 <= len(data); i += 8 {
			if le.Uint64(data[i:])&0x7ff0000000000000 == 0x7ff0000000000000 {
				return i / 8
			}
		}
	case BF16, F16:
		mask := uint16(0x7f80)
		if t == F16 {
			mask = 0x7c00
		}
		for i := 0; i+2 <= len(data); i += 2 {
			if le.Uint16(data[i:])&mask == mask {
				return i / 2
			}
		}
	case Bool, U8, I8, F8E5M2, F8E4M3, F8E8M0, U16, I16, U32, I32, C64, U64, I64:
	}
	return -1
}
