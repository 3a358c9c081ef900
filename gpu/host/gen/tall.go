package main

import "fmt"

// tallParams is the signature of a tall tile: C[m,16·panels] (+)= A[m,k] · B for few rows and a
// weight that is read as one stream. A is packed, its element (i,p) at a[p*m+i]. B is panels of
// 16 columns, one after the other, and in each its rows; C's rows are ldc bytes apart, and read
// only if load is not 0. With every two rows of B, what lies at b+ahead is fetched, and ahead
// grows by pace; so is a line of soon, which moves by step. An element is one chain of fused
// multiply-adds over p = 0..k-1, as in a tile.
//
// Rows of bfloat16 stand in pairs: a word has row p in its low half and row p+1 in its high
// half, so that one shift and one mask widen a line.
const (
	tallParams = "panels, k int, a *float32, b unsafe.Pointer, c *float32, ldc, load, ahead, pace int, soon unsafe.Pointer, step int"
	tallArgs   = 11 * 8
	tallCols   = 16
	tallNear   = 512  // bytes
	tallLead   = 4096 // bytes beyond ahead
)

func tallName(s isa, bf16 bool, rows int) string {
	name := s.name + "Tall" + map[bool]string{false: "F32", true: "BF16"}[bf16]
	if rows == 0 {
		return name + "Tiles"
	}
	return fmt.Sprintf("%s%d", name, rows)
}

// tall is one tall tile.
type tall struct {
	*asm
	isa
	bf16 bool
	rows int
	cols int // in registers
}

func (t tall) acc(i, j int) string { return t.r(t.cols*i + j) }

// b are the registers of a row of B: those of p and of p+1 differ where there are enough.
func (t tall) b(p, j int) string {
	if t.reg == "Y" {
		p = 0
	}
	return t.r(t.cols*t.rows + t.cols*p + j)
}

func (t tall) mask() string { return t.r(t.cols*t.rows + 2) }

// tall writes one tall tile and returns its name.
func (a *asm) tall(s isa, bf16 bool, rows int) string {
	t := tall{asm: a, isa: s, bf16: bf16, rows: rows, cols: tallCols / s.lanes}
	name := tallName(s, bf16, rows)
	a.text(name, tallParams, tallArgs)
	for _, arg := range [][2]string{
		{"panels+0(FP)", "R12"},
		{"b+24(FP)", "BX"},
		{"c+32(FP)", "DX"},
		{"ldc+40(FP)", "SI"},
		{"load+48(FP)", "R9"},
		{"ahead+56(FP)", "AX"},
		{"pace+64(FP)", "DI"},
		{"soon+72(FP)", "R13"},
		{"step+80(FP)", "R10"},
	} {
		a.op("MOVQ", arg[0], arg[1])
	}
	a.op("ADDQ", "BX", "AX")
	if bf16 {
		low := "X" + t.mask()[1:]
		a.op("MOVL", "$0xffff0000", "CX")
		a.op("VMOVD", "CX", low)
		a.op("VPBROADCASTD", low, t.mask())
	}
	a.label("panel")
	a.op("MOVQ", "k+8(FP)", "CX")
	a.op("MOVQ", "a+16(FP)", "R8")
	t.start()
	a.op("SUBQ", "$2", "CX")
	a.op("JLT", "odd")
	a.label("loop")
	t.step(0)
	t.step(1)
	t.fetch()
	a.op("ADDQ", fmt.Sprintf("$%d", 8*rows), "R8")
	a.op("ADDQ", fmt.Sprintf("$%d", t.pair()), "BX")
	a.op("SUBQ", "$2", "CX")
	a.op("JGE", "loop")
	a.label("odd")
	a.op("ADDQ", "$2", "CX")
	a.op("JEQ", "store")
	t.step(0)
	a.op("ADDQ", fmt.Sprintf("$%d", 4*tallCols), "BX")
	a.label("store")
	t.each(func(i, j int) { a.op(s.move, t.acc(i, j), mem(s.bytes()*j, "DX")) })
	a.op("LEAQ", fmt.Sprintf("%d(R11)", 4*tallCols), "DX")
	a.op("DECQ", "R12")
	a.op("JNZ", "panel")
	a.op("VZEROUPPER")
	a.op("RET")
	return name
}

// pair is the bytes of two rows of B.
func (t tall) pair() int {
	if t.bf16 {
		return 4 * tallCols
	}
	return 8 * tallCols
}

// fetch asks for two rows of B far ahead, for a second-level cache, then near, for the first. A
// processor with many requests under way drops some: float32, which memory holds up more than
// multiplying does, is asked for once more, still further ahead.
func (t tall) fetch() {
	for at := 0; at < t.pair(); at += 64 {
		t.op("PREFETCHT1", mem(at, "AX"))
		t.op("PREFETCHT0", mem(tallNear+at, "BX"))
	}
	if t.reg == "Z" && !t.bf16 {
		t.op("PREFETCHT1", mem(tallLead, "AX"))
	}
	t.op("ADDQ", "DI", "AX")
	if t.reg == "Y" {
		t.op("PREFETCHT1", "(R13)")
		t.op("ADDQ", "R10", "R13")
	}
}

// each visits the registers of C, whose row stands at DX.
func (t tall) each(f func(i, j int)) {
	for i := range t.rows {
		for j := range t.cols {
			f(i, j)
		}
		if i < t.rows-1 {
			t.op("ADDQ", "SI", "DX")
		}
	}
}

// start sets the accumulators to C or to zero, and fetches C's lines for the stores.
func (t tall) start() {
	t.op("MOVQ", "DX", "R11")
	t.op("TESTQ", "R9", "R9")
	t.op("JEQ", "zero")
	t.each(func(i, j int) { t.op(t.move, mem(t.isa.bytes()*j, "DX"), t.acc(i, j)) })
	t.op("JMP", "begin")
	t.label("zero")
	t.each(func(i, j int) {
		if j == 0 {
			t.op("PREFETCHT0", "(DX)")
		}
		t.op("VXORPS", t.acc(i, j), t.acc(i, j), t.acc(i, j))
	})
	t.label("begin")
	t.op("MOVQ", "R11", "DX")
}

// step multiplies by row p of a pair.
func (t tall) step(p int) {
	for j := range t.cols {
		t.load(p, j)
	}
	for i := range t.rows {
		from := mem(4*(p*t.rows+i), "R8")
		if t.reg == "Y" {
			spare := t.r(15)
			t.op("VBROADCASTSS", from, spare)
			for j := range t.cols {
				t.op("VFMADD231PS", spare, t.b(p, j), t.acc(i, j))
			}
			continue
		}
		t.op("VFMADD231PS.BCST", from, t.b(p, 0), t.acc(i, 0))
	}
}

// load widens register j of row p of a pair.
func (t tall) load(p, j int) {
	to, from := t.b(p, j), mem(t.isa.bytes()*j, "BX")
	switch {
	case !t.bf16:
		t.op(t.move, mem(4*tallCols*p+t.isa.bytes()*j, "BX"), to)
	case p == 1:
		t.op(map[string]string{"Z": "VPANDD", "Y": "VPAND"}[t.reg], from, t.mask(), to)
	case t.reg == "Z":
		t.op("VPSLLD", "$16", from, to)
	default:
		t.op("VMOVDQU", from, to)
		t.op("VPSLLD", "$16", to, to)
	}
}
