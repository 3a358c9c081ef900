package sample

import "math"

// unitBits: a vocabulary of 2²¹ tokens, the most a model may have, sums up to below 2⁶³.
const unitBits = 41

// Unit is a weight of 1 as a whole number. Weights below its inverse, 4.5e-13, are 0 in sums.
const Unit = 1 << unitBits

// whole is a weight as a whole number.
func whole(weight float32) int64 { return int64(weight * Unit) }

// Exp is e^x for x <= 0, within 4e-7 relative; 0 below -87. math.Exp would be a tenth of a decode
// step on a large vocabulary. It is the same on every machine and on a GPU (kernels/sample.cu): the
// conversions keep compilers from contracting a product and a sum.
func Exp(x float32) float32 {
	if x < -87 {
		return 0
	}
	const ln2High, ln2Low = 0.693145751953125, 1.42860682030941723212e-6
	n := int32(float32(x*math.Log2E) - 0.5) // rounds, as x is not positive
	f := float32(x-float32(float32(n)*ln2High)) - float32(float32(n)*ln2Low)
	// Taylor to the sixth degree on [-ln 2/2, ln 2/2].
	p := float32(f*(1./720)) + 1./120
	p = float32(f*p) + 1./24
	p = float32(f*p) + 1./6
	p = float32(f*p) + 0.5
	p = float32(f*p) + 1
	p = float32(f*p) + 1
	return p * math.Float32frombits(uint32(127+n)<<23)
}
