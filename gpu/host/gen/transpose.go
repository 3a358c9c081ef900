package main

import "fmt"

// transposeParams turns 8 rows of 8·blocks elements into 8·blocks rows of 8. Strides are in
// bytes.
const (
	transposeParams = "(blocks int, src *float32, lds int, dst *float32, ldd int)"
	transposeArgs   = 5 * 8
)

// transpose writes the kernel on 256-bit registers, which both instruction sets have.
func (a *asm) transpose(s isa) {
	a.text(s.name+"Transpose", transposeParams[1:len(transposeParams)-1], transposeArgs)
	for _, arg := range [][2]string{
		{"blocks+0(FP)", "CX"},
		{"src+8(FP)", "R8"},
		{"lds+16(FP)", "R9"},
		{"dst+24(FP)", "DX"},
		{"ldd+32(FP)", "SI"},
	} {
		a.op("MOVQ", arg[0], arg[1])
	}
	a.op("LEAQ", "(R9)(R9*2)", "R10")
	a.op("LEAQ", "(R8)(R9*4)", "R11")
	a.label("block")
	y := func(i int) string { return fmt.Sprintf("Y%d", i) }
	for i := range 8 {
		a.op("VMOVUPS", rowAddress(i), y(i))
	}
	for i := 0; i < 8; i += 2 { // pairs of rows, by words
		a.op("VUNPCKLPS", y(i+1), y(i), y(8+i))
		a.op("VUNPCKHPS", y(i+1), y(i), y(9+i))
	}
	for i := 0; i < 8; i += 4 { // fours of rows, by pairs of words
		a.op("VSHUFPS", "$0x44", y(10+i), y(8+i), y(i))
		a.op("VSHUFPS", "$0xee", y(10+i), y(8+i), y(i+1))
		a.op("VSHUFPS", "$0x44", y(11+i), y(9+i), y(i+2))
		a.op("VSHUFPS", "$0xee", y(11+i), y(9+i), y(i+3))
	}
	for i := range 4 { // eights of rows, by halves
		a.op("VPERM2F128", "$0x20", y(4+i), y(i), y(8+i))
		a.op("VPERM2F128", "$0x31", y(4+i), y(i), y(12+i))
	}
	for i := range 8 {
		a.op("VMOVUPS", y(8+i), "(DX)")
		a.op("ADDQ", "SI", "DX")
	}
	a.op("ADDQ", "$32", "R8")
	a.op("ADDQ", "$32", "R11")
	a.op("DECQ", "CX")
	a.op("JNZ", "block")
	a.op("VZEROUPPER")
	a.op("RET")
}

// gatherParams copies rows of one panel's width, lds bytes apart, to where they stand one
// after the other.
const (
	gatherParams = "(rows int, src *float32, lds int, dst *float32)"
	gatherArgs   = 4 * 8
)

func (a *asm) gather(s isa) {
	a.text(s.name+"Gather", gatherParams[1:len(gatherParams)-1], gatherArgs)
	for _, arg := range [][2]string{
		{"rows+0(FP)", "CX"},
		{"src+8(FP)", "R8"},
		{"lds+16(FP)", "R9"},
		{"dst+24(FP)", "DX"},
	} {
		a.op("MOVQ", arg[0], arg[1])
	}
	a.label("row")
	for j := range 2 {
		a.op(s.move, mem(j*s.bytes(), "R8"), s.r(j))
	}
	for j := range 2 {
		a.op(s.move, s.r(j), mem(j*s.bytes(), "DX"))
	}
	a.op("ADDQ", "R9", "R8")
	a.op("ADDQ", fmt.Sprintf("$%d", 2*s.bytes()), "DX")
	a.op("DECQ", "CX")
	a.op("JNZ", "row")
	a.op("VZEROUPPER")
	a.op("RET")
}

// packTileParams copies rows of m elements, lds bytes apart, to where they stand one after
// the other; m is at most the height of the tallest tile.
const (
	packTileParams = "(rows int, src *float32, lds int, dst *float32, m int)"
	packTileArgs   = 5 * 8
)

func (a *asm) packTile(s isa) {
	a.text(s.name+"PackTile", packTileParams[1:len(packTileParams)-1], packTileArgs)
	for _, arg := range [][2]string{
		{"rows+0(FP)", "R10"},
		{"src+8(FP)", "R8"},
		{"lds+16(FP)", "R9"},
		{"dst+24(FP)", "R11"},
		{"m+32(FP)", "CX"},
	} {
		a.op("MOVQ", arg[0], arg[1])
	}
	b := &body{asm: a, isa: s, loop: loop{streams: []string{"src", "dst"}}, tail: true}
	b.pointers = map[string]string{"src": "R8", "dst": "R11"}
	a.op("LEAQ", "(CX*4)", "SI")
	b.mask()
	a.op("XORQ", "AX", "AX")
	a.label("row")
	b.store("dst", b.load("src"))
	a.op("ADDQ", "R9", "R8")
	a.op("ADDQ", "SI", "R11")
	a.op("DECQ", "R10")
	a.op("JNZ", "row")
	a.op("VZEROUPPER")
	a.op("RET")
}
