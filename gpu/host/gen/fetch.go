package main

// fetchParams asks for lines of 64 bytes that follow each other, which will be needed soon.
const (
	fetchParams = "(lines int, at *float32)"
	fetchArgs   = 2 * 8
)

func (a *asm) fetch(s isa) {
	a.text(s.name+"Fetch", "lines int, at *float32", fetchArgs)
	a.op("MOVQ", "lines+0(FP)", "CX")
	a.op("MOVQ", "at+8(FP)", "BX")
	a.label("line")
	a.op("PREFETCHT0", "(BX)")
	a.op("ADDQ", "$64", "BX")
	a.op("DECQ", "CX")
	a.op("JNZ", "line")
	a.op("RET")
}
