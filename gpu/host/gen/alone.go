package main

import "fmt"

// aloneParams is the attention of a decode: the query heads of one key/value head, a few
// rows q (m,d), over whole pages that no other row reads with them. Page i's keys (d,16) are
// at k + table[i]·stride, its values (16,d) at v + table[i]·stride; strides are in bytes, d is
// a multiple of 16. The table goes on for alonePages pages, which are only fetched. s is
// scratch (2,m,16); state (m,2) and acc (m,d) are those of softmax.go.
//
// It does to a row what a half tile, the softmax of a chunk and a tile do one after another,
// chain by chain, so that it has their bits. Scores of two pages are computed at a time where
// the registers suffice, since chains of few rows leave the multipliers idle.
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

// alone is the kernel for one number of rows. DI is where the table goes on, CX the pages that
// are left, SI those of this round.
type alone struct {
	*asm
	isa
	rows, cols int // cols in registers: a page's keys
	together   int // pages of a round
}

// alone writes the kernel for one number of rows and returns its name.
func (a *asm) alone(s isa, rows int) string {
	name := aloneName(s, rows)
	a.text(name, aloneParams, aloneArgs)
	t := alone{asm: a, isa: s, rows: rows, cols: 16 / s.lanes, together: 2}
	if (2*rows+1)*t.cols+1 >= s.registers() {
		t.together = 1
	}
	b := &body{asm: a, isa: s, loop: loop{name: name}}
	scale := s.r(s.registers() - 1)
	a.op("MOVQ", "pages+0(FP)", "CX")
	a.op("MOVQ", "table+8(FP)", "DI")
	a.op("VBROADCASTSS", "scale+88(FP)", scale)
	a.label("pages")
	t.scores()
	a.op("MOVQ", fmt.Sprintf("$%d", t.together), "SI")
	a.op("CMPQ", "CX", "SI")
	a.op("CMOVQLT", "CX", "SI")
	a.op("MOVQ", "s+64(FP)", "R8")
	a.label("page")
	a.op("MOVQ", "state+72(FP)", "R10")
	a.op("MOVQ", "acc+80(FP)", "R11")
	a.op("MOVQ", "d+56(FP)", "R12")
	a.op("MOVQ", fmt.Sprintf("$%d", rows), "R13")
	a.label("row")
	var scores []string
	for j := range t.cols {
		scores = append(scores, b.reg())
		a.op("VMULPS", mem(s.bytes()*j, "R8"), scale, scores[j])
	}
	b.softmaxScores(scores)
	a.label("next")
	a.op("ADDQ", "$64", "R8")
	a.op("ADDQ", "$8", "R10")
	a.op("LEAQ", "(R11)(R12*4)", "R11")
	a.op("DECQ", "R13")
	a.op("JNZ", "row")
	t.values()
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
// table.
func (t alone) pageAt(i int, base, register string) {
	t.op("MOVLQSX", mem(4*i, "DI"), register)
	t.op("IMULQ", "stride+32(FP)", register)
	t.op("ADDQ", base, register)
}

// acc is register j of the scores of a page's row i.
func (t alone) acc(page, i, j int) string { return t.r(t.cols*(t.together*i+page) + j) }

// scores writes the scores of the next pages to s, and fetches the keys of as many more, and
// for a second-level cache those of as many after these.
func (t alone) scores() {
	at := []string{"BX", "DX", "R11", "R13", "AX", "SI"}[:3*t.together] // pages of this round and of the next two
	for i, register := range at {
		t.pageAt(i, "k+16(FP)", register)
	}
	t.op("MOVQ", "q+40(FP)", "R8")
	t.op("MOVQ", "ldq+48(FP)", "R9")
	t.op("LEAQ", "(R9)(R9*2)", "R10")
	t.op("MOVQ", "d+56(FP)", "R12")
	used := t.cols * t.together * t.rows
	for i := range used {
		t.op("VXORPS", t.r(i), t.r(i), t.r(i))
	}
	t.label("score")
	if used+t.cols*t.together+1 < t.registers() {
		t.scoresOf(at[:t.together], 0)
	} else {
		for page := range t.together {
			t.scoresOf(at[page:page+1], page)
		}
	}
	for _, register := range at[t.together : 2*t.together] {
		t.op("PREFETCHT0", mem(0, register))
	}
	for _, register := range at[2*t.together:] {
		t.op("PREFETCHT1", mem(0, register))
	}
	for _, register := range at {
		t.op("ADDQ", "$64", register)
	}
	t.op("ADDQ", "$4", "R8")
	t.op("DECQ", "R12")
	t.op("JNZ", "score")
	t.op("MOVQ", "s+64(FP)", "R8")
	for page := range t.together {
		for i := range t.rows {
			for j := range t.cols {
				t.op("VMOVUPS", t.acc(page, i, j), mem(64*(page*t.rows+i)+t.isa.bytes()*j, "R8"))
			}
		}
	}
}

// scoresOf adds one element of the queries times one of the keys of these pages, the first of
// which is page.
func (t alone) scoresOf(at []string, page int) {
	keys := t.cols * t.together * t.rows // registers, then some for elements of the queries
	queries := keys + t.cols*len(at)
	for p := range at {
		for j := range t.cols {
			t.op("VMOVUPS", mem(t.isa.bytes()*j, at[p]), t.r(keys+t.cols*p+j))
		}
	}
	for i := range t.rows {
		x := t.r(queries + i%(t.registers()-1-queries))
		t.op("VBROADCASTSS", rowAddress(i), x)
		for p := range at {
			for j := range t.cols {
				t.op("VFMADD231PS", x, t.r(keys+t.cols*p+j), t.acc(page+p, i, j))
			}
		}
	}
}

// values adds the weighted values of a page to acc, 16 columns at a time, and fetches the
// values of the next two, line after line. The weights end at R8.
func (t alone) values() {
	t.pageAt(0, "v+24(FP)", "AX")
	t.pageAt(1, "v+24(FP)", "R13")
	t.pageAt(2, "v+24(FP)", "DX")
	t.op("MOVQ", "acc+80(FP)", "R11")
	t.op("MOVQ", "d+56(FP)", "R12")
	t.op("LEAQ", "(R12*4)", "R9")
	t.op("LEAQ", "(R9)(R9*2)", "R10")
	t.label("columns")
	t.op("MOVQ", "AX", "BX")
	t.eachSum(func(sum, at string) { t.op("VMOVUPS", at, sum) })
	for key := range 16 {
		t.value(key)
		t.op("ADDQ", "R9", "BX")
	}
	t.eachSum(func(sum, at string) { t.op("VMOVUPS", sum, at) })
	t.op("ADDQ", "$64", "AX")
	t.op("ADDQ", "$1024", "R13")
	t.op("ADDQ", "$1024", "DX")
	t.op("ADDQ", "$64", "R11")
	t.op("SUBQ", "$16", "R12")
	t.op("JGT", "columns")
}

// eachSum visits the registers of 16 columns of acc, and where they stand in memory.
func (t alone) eachSum(f func(sum, at string)) {
	for i := range t.rows {
		for j := range t.cols {
			at := mem(t.isa.bytes()*j, "R11") + []string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[i]
			f(t.r(t.cols*i+j), at)
		}
	}
}

// value adds 16 columns of the value of a key, which stand at BX, to all rows.
func (t alone) value(key int) {
	sums := t.cols * t.rows
	value := func(j int) string { return t.r(sums + t.cols*(key%2) + j) }
	for j := range t.cols {
		t.op("VMOVUPS", mem(t.isa.bytes()*j, "BX"), value(j))
	}
	t.op("PREFETCHT0", mem(64*key, "R13"))
	t.op("PREFETCHT1", mem(64*key, "DX"))
	for i := range t.rows {
		weight := mem(64*(i-t.rows)+4*key, "R8")
		if t.reg == "Z" {
			t.op("VFMADD231PS.BCST", weight, value(0), t.r(i))
			continue
		}
		x := t.r(sums + 2*t.cols + i%2)
		t.op("VBROADCASTSS", weight, x)
		for j := range t.cols {
			t.op("VFMADD231PS", x, value(j), t.r(t.cols*i+j))
		}
	}
}
