package main

import "fmt"

// squaresParams is the sum of the squares of n elements in float64, n a multiple of 32: four
// chains, added in order.
const (
	squaresParams = "(n int, x *float32) (sum float64)"
	squaresArgs   = 24
)

func (a *asm) squares(s isa) {
	a.text(s.name+"Squares", "n int, x *float32", squaresArgs)
	a.op("MOVQ", "n+0(FP)", "CX")
	a.op("MOVQ", "x+8(FP)", "R8")
	const chains = 4
	half := s.bytes() / 2 // float32 that widen to a register of float64
	for i := range chains {
		a.op("VXORPD", s.r(i), s.r(i), s.r(i))
	}
	a.label("loop")
	for i := range chains {
		wide := s.r(chains + i)
		a.op("VCVTPS2PD", mem(i*half, "R8"), wide)
		a.op("VFMADD231PD", wide, wide, s.r(i))
	}
	a.op("ADDQ", fmt.Sprintf("$%d", chains*half), "R8")
	a.op("SUBQ", fmt.Sprintf("$%d", chains*half/4), "CX")
	a.op("JGT", "loop")
	for i := 1; i < chains; i++ {
		a.op("VADDPD", s.r(i), s.r(0), s.r(0))
	}
	if s.reg == "Z" {
		a.op("VEXTRACTF64X4", "$1", "Z0", "Y1")
		a.op("VADDPD", "Y1", "Y0", "Y0")
	}
	a.op("VEXTRACTF128", "$1", "Y0", "X1")
	a.op("VADDPD", "X1", "X0", "X0")
	a.op("VPERMILPD", "$1", "X0", "X1")
	a.op("VADDSD", "X1", "X0", "X0")
	a.op("VMOVSD", "X0", "sum+16(FP)")
	a.op("VZEROUPPER")
	a.op("RET")
}
