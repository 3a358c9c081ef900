package main

import "fmt"

// softmaxParams is one step of an online softmax over a chunk of 16 keys, for rows of
// queries. Of row i, the scores are s[i*16:], of which valid[i] count; state[2i] is the
// greatest scaled score so far and state[2i+1] the sum of exponentials relative to it; acc
// (rows,d) is the weighted sum of values, d a multiple of 16. The scores become weights, 0
// where they don't count, and what was summed before is made relative to the new greatest.
// A row with nothing valid is left as it was, its weights 0: a row's bits don't depend on
// its neighbours.
const (
	softmaxParams = "(rows int, s *float32, valid *int32, state, acc *float32, d int, scale float32)"
	softmaxArgs   = 52
)

func (a *asm) softmax(s isa) {
	a.text(s.name+"Softmax", softmaxParams[1:len(softmaxParams)-1], softmaxArgs)
	b := &body{asm: a, isa: s, loop: loop{name: "Softmax"}}
	for _, arg := range [][2]string{
		{"rows+0(FP)", "R13"},
		{"s+8(FP)", "R8"},
		{"valid+16(FP)", "R9"},
		{"state+24(FP)", "R10"},
		{"acc+32(FP)", "R11"},
		{"d+40(FP)", "R12"},
	} {
		a.op("MOVQ", arg[0], arg[1])
	}
	scale := b.reg()
	a.op("VBROADCASTSS", "scale+48(FP)", scale)
	a.label("row")
	b.softmaxScores(b.validScores(scale))
	a.label("next")
	a.op("ADDQ", "$64", "R8")
	a.op("ADDQ", "$4", "R9")
	a.op("ADDQ", "$8", "R10")
	a.op("LEAQ", "(R11)(R12*4)", "R11")
	a.op("DECQ", "R13")
	a.op("JNZ", "row")
	a.op("VZEROUPPER")
	a.op("RET")
	a.label("masked")
	zero := b.r(1)
	a.op("VXORPS", zero, zero, zero)
	for part := range 16 / s.lanes {
		a.op("VMOVUPS", zero, mem(part*s.bytes(), "R8"))
	}
	a.op("JMP", "next")
}

// softmaxScores turns the scaled scores of a row into weights at R8, and goes to "next".
func (b *body) softmaxScores(scores []string) {
	top, old := b.reg(), b.reg()
	b.op("VMOVAPS", scores[0], top)
	for _, r := range scores[1:] {
		b.op("VMAXPS", r, top, top)
	}
	b.reduce(top, "VMAXPS")
	b.op("VBROADCASTSS", x(top), top)
	b.op("VBROADCASTSS", "(R10)", old)
	b.op("VMAXPS", old, top, top)
	sum := b.reg()
	for part, r := range scores {
		b.op("VSUBPS", top, r, r)
		b.exp(r)
		b.op("VMOVUPS", r, mem(part*b.isa.bytes(), "R8"))
	}
	b.op("VMOVAPS", scores[0], sum)
	for _, r := range scores[1:] {
		b.op("VADDPS", r, sum, sum)
	}
	b.reduce(sum, "VADDPS")
	b.op("VMOVSS", x(top), "(R10)")
	b.op("VUCOMISS", x(top), x(old))
	b.op("JEQ", "same")
	b.op("VSUBPS", top, old, old)
	b.exp(old) // what the earlier chunks count for now
	b.op("VMOVSS", "4(R10)", x(top))
	b.op("VFMADD213SS", x(sum), x(old), x(top))
	b.op("VMOVSS", x(top), "4(R10)")
	b.op("XORQ", "AX", "AX")
	b.label("scale")
	b.op("VMULPS", "(R11)(AX*4)", old, top)
	b.op("VMOVUPS", top, "(R11)(AX*4)")
	b.op("ADDQ", fmt.Sprintf("$%d", b.lanes), "AX")
	b.op("CMPQ", "AX", "R12")
	b.op("JLT", "scale")
	b.op("JMP", "next")
	b.label("same")
	b.op("VADDSS", "4(R10)", x(sum), x(sum))
	b.op("VMOVSS", x(sum), "4(R10)")
}

// validScores loads the scaled scores of a row, those that don't count as -Inf, and skips a
// row that has none.
func (b *body) validScores(scale string) []string {
	var scores []string
	for range 16 / b.lanes {
		scores = append(scores, b.reg())
	}
	b.op("MOVLQSX", "(R9)", "CX")
	b.op("TESTQ", "CX", "CX")
	b.op("JLE", "masked")
	b.op("CMPQ", "CX", "$16")
	b.op("JLE", "some")
	b.op("MOVQ", "$16", "CX")
	b.label("some")
	if b.isa.reg == "Z" {
		b.mask()
		b.constant(negInf(), scores[0])
		b.op("VMULPS", "(R8)", scale, "K2", scores[0])
		return scores
	}
	b.op("LEAQ", b.data("mask"), "DX")
	b.op("NEGQ", "CX")
	b.with(func() {
		mask, out := b.reg(), b.reg()
		b.constant(negInf(), out)
		for part, r := range scores {
			b.op("VMOVDQU", fmt.Sprintf("%d(DX)(CX*4)", 64+32*part), mask)
			b.op("VMULPS", mem(32*part, "R8"), scale, r)
			b.op("VBLENDVPS", mask, r, out, r)
		}
	})
	return scores
}
