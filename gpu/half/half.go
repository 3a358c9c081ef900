// Package half converts between float32 and the two types of half its size: IEEE 754
// binary16 (F16) and bfloat16 (BF16). Widening is exact; narrowing rounds to nearest, ties
// to even, and a NaN stays one.
package half

import "math"

// FromBF16 widens a bfloat16.
func FromBF16(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }

// ToBF16 rounds to the nearest bfloat16.
func ToBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 1<<6 // quiet, so that no fraction bit is needed from below
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromF16 widens a binary16.
func FromF16(x uint16) float32 {
	sign := uint32(x&0x8000) << 16
	exponent, fraction := uint32(x>>10&31), uint32(x&0x3ff)
	switch exponent {
	case 0: // zero or subnormal: fraction · 2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// ToF16 rounds to the nearest binary16; what is too large becomes infinite.
func ToF16(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, abs := uint16(bits>>16&0x8000), bits&0x7fffffff
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
