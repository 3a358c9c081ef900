package main

// Bounds of exp: below the first its value is taken as 0, above the second as the value there.
const (
	expLow  = -86.5 // 2⁻¹²⁵ is the least power that the exponent field can be moved to
	expHigh = 88.37 // just below log of the greatest float32
)

// exp replaces r by e^r with a relative error below 2e-7; NaN stays NaN. The method is the
// classical one (Cephes expf): r = n·log 2 + f, a polynomial in f, and n added to the
// exponent.
func (b *body) exp(r string) {
	b.with(func() {
		n, p, keep := b.reg(), b.reg(), "K1"
		if b.isa.reg == "Y" {
			keep = b.reg()
		}
		const notLess = "$21" // unordered counts as not less
		b.compare(notLess, expLow, r, keep)
		b.constant(expHigh, n)
		b.op("VMINPS", r, n, r) // of two operands one of which is NaN, the first is taken
		b.constant(expLow, n)
		b.op("VMAXPS", r, n, r)
		b.opc("VMULPS", 1.44269504088896341, r, n)
		b.op(map[string]string{"Z": "VRNDSCALEPS", "Y": "VROUNDPS"}[b.isa.reg], "$8", n, n)
		b.opc("VFNMADD231PS", 0.693359375, n, r)
		b.opc("VFNMADD231PS", -2.12194440e-4, n, r)
		b.constant(1.9875691500e-4, p)
		for _, c := range []float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
			b.opc("VFMADD213PS", c, r, p)
		}
		b.op("VCVTPS2DQ", n, n)
		b.op("VPSLLD", "$23", n, n)
		b.with(func() {
			square := b.reg()
			b.op("VMULPS", r, r, square)
			b.op("VFMADD213PS", r, square, p)
		})
		b.opc("VADDPS", 1, p, p)
		b.op("VPADDD", n, p, r)
		if b.isa.reg == "Z" {
			b.op("VMOVAPS.Z", r, keep, r)
		} else {
			b.op("VANDPS", keep, r, r)
		}
	})
}

// compare sets keep where r compares to v as the predicate says.
func (b *body) compare(predicate string, v float32, r, keep string) {
	name := "VCMPPS"
	if b.isa.reg == "Z" {
		name += ".BCST"
	}
	b.op(name, predicate, b.value(v), r, keep)
}
