package main

import "fmt"

// aloneParams is the attention of a decode: the query heads of one key/value head, a few
// rows q (m,d), over whole pages that no other row reads with them. Page i's keys (d,16) are
// at k + table[i]·stride, its values (16,d) at v + table[i]·stride; strides are in bytes, d is
// a multiple of 16. s is scratch (2,m,16); state (m,2) and acc (m,d) are those of softmax.go.
//
// It does to a row what a half tile, the softmax of a chunk and a tile do one after another,
// chain by chain, so that it has their bits. Scores of two pages are computed at a time, since
// chains of few rows leave the multipliers idle.
const (
	aloneParams = "pages int, table *int32, k, v *float32, stride int, q *float32, ldq, d int, s, state, acc *float32, scale float32"
	aloneArgs   = 11*8 + 4
)

func aloneName(s isa, rows int) string {
	if rows == 0 {
		return s.name + "Alones"
	}
	return fmt.Sprintf("%sAlone%d", s.name, rows)
}

// alone writes the kernel for one number of rows and returns its name. DI is where the table
// goes on, CX the pages that are left, SI those of this round.
func (a *asm) alone(s isa, rows int) string {
	name := aloneName(s, rows)
	a.text(name, aloneParams, aloneArgs)
	b := &body{asm: a, isa: s, loop: loop{name: name}}
	scale := s.r(s.registers() - 1)
	a.op("MOVQ", "pages+0(FP)", "CX")
	a.op("MOVQ", "table+8(FP)", "DI")
	a.op("VBROADCASTSS", "scale+88(FP)", scale)
	a.label("pages")
	a.aloneScores(s, rows)
	a.op("MOVQ", "$2", "SI")
	a.op("CMPQ", "CX", "SI")
	a.op("CMOVQLT", "CX", "SI")
	a.op("MOVQ", "s+64(FP)", "R8")
	a.label("page")
	a.op("MOVQ", "state+72(FP)", "R10")
	a.op("MOVQ", "acc+80(FP)", "R11")
	a.op("MOVQ", "d+56(FP)", "R12")
	a.op("MOVQ", fmt.Sprintf("$%d", rows), "R13")
	a.label("row")
	score := b.reg()
	a.op("VMULPS", "(R8)", scale, score)
	b.softmaxScores([]string{score})
	a.label("next")
	a.op("ADDQ", "$64", "R8")
	a.op("ADDQ", "$8", "R10")
	a.op("LEAQ", "(R11)(R12*4)", "R11")
	a.op("DECQ", "R13")
	a.op("JNZ", "row")
	a.aloneValues(s, rows)
	a.op("ADDQ", "$4", "DI")
	a.op("DECQ", "CX")
	a.op("DECQ", "SI")
	a.op("JNZ", "page")
	a.op("TESTQ", "CX", "CX")
	a.op("JNE", "pages")
	a.op("VZEROUPPER")
	a.op("RET")
	return name
}

// pageAt makes register the address of what stands at base for the page at index i of the
// table, or leaves it alone when fewer pages are left.
func (a *asm) pageAt(i int, base, register string) {
	have := fmt.Sprintf("have%s%d", register, i)
	if i > 0 {
		a.op("CMPQ", "CX", fmt.Sprintf("$%d", i))
		a.op("JLE", have)
	}
	a.op("MOVLQSX", mem(4*i, "DI"), register)
	a.op("IMULQ", "stride+32(FP)", register)
	a.op("ADDQ", base, register)
	if i > 0 {
		a.label(have)
	}
}

// aloneScores writes the scores of the next two pages to s, and fetches the keys of two more.
func (a *asm) aloneScores(s isa, rows int) {
	a.pageAt(0, "k+16(FP)", "BX")
	for _, next := range [][2]string{{"BX", "DX"}, {"DX", "R11"}, {"R11", "R13"}} {
		a.op("MOVQ", next[0], next[1])
	}
	a.pageAt(1, "k+16(FP)", "DX")
	a.pageAt(2, "k+16(FP)", "R11")
	a.pageAt(3, "k+16(FP)", "R13")
	a.op("MOVQ", "q+40(FP)", "R8")
	a.op("MOVQ", "ldq+48(FP)", "R9")
	a.op("LEAQ", "(R9)(R9*2)", "R10")
	a.op("MOVQ", "d+56(FP)", "R12")
	acc := func(page, i int) string { return s.r(2*i + page) }
	for i := range 2 * rows {
		a.op("VXORPS", s.r(i), s.r(i), s.r(i))
	}
	keys := []string{s.r(2 * rows), s.r(2*rows + 1)}
	a.label("score")
	a.op("VMOVUPS", "(BX)", keys[0])
	a.op("VMOVUPS", "(DX)", keys[1])
	for i := range rows {
		x := s.r(2*rows + 2 + i)
		a.op("VBROADCASTSS", rowAddress(i), x)
		a.op("VFMADD231PS", x, keys[0], acc(0, i))
		a.op("VFMADD231PS", x, keys[1], acc(1, i))
	}
	a.op("PREFETCHT0", "(R11)")
	a.op("PREFETCHT0", "(R13)")
	for _, r := range []string{"BX", "DX", "R11", "R13"} {
		a.op("ADDQ", "$64", r)
	}
	a.op("ADDQ", "$4", "R8")
	a.op("DECQ", "R12")
	a.op("JNZ", "score")
	a.op("MOVQ", "s+64(FP)", "R8")
	for page := range 2 {
		for i := range rows {
			a.op("VMOVUPS", acc(page, i), mem(64*(page*rows+i), "R8"))
		}
	}
}

// aloneValues adds the weighted values of a page to acc, 16 columns at a time, and fetches
// the values of the next. The weights end at R8.
func (a *asm) aloneValues(s isa, rows int) {
	a.pageAt(0, "v+24(FP)", "AX")
	a.op("MOVQ", "AX", "R13")
	a.pageAt(1, "v+24(FP)", "R13")
	a.op("SUBQ", "AX", "R13")
	a.op("MOVQ", "acc+80(FP)", "R11")
	a.op("MOVQ", "d+56(FP)", "R12")
	a.op("LEAQ", "(R12*4)", "R9")
	a.op("LEAQ", "(R9)(R9*2)", "R10")
	at := func(i int) string { return "(R11)" + []string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[i] }
	a.label("columns")
	a.op("MOVQ", "AX", "BX")
	for i := range rows {
		a.op("VMOVUPS", at(i), s.r(i))
	}
	for key := range 16 {
		value := s.r(rows + key%2)
		a.op("VMOVUPS", "(BX)", value)
		a.op("PREFETCHT0", "(BX)(R13*1)")
		for i := range rows {
			a.op("VFMADD231PS.BCST", mem(64*(i-rows)+4*key, "R8"), value, s.r(i))
		}
		a.op("ADDQ", "R9", "BX")
	}
	for i := range rows {
		a.op("VMOVUPS", s.r(i), at(i))
	}
	a.op("ADDQ", "$64", "AX")
	a.op("ADDQ", "$64", "R11")
	a.op("SUBQ", "$16", "R12")
	a.op("JGT", "columns")
}
