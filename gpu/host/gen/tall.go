package main

import "fmt"

// tallParams is the signature of a tall tile: C[m,16] (+)= A[m,k] · B[k,16] for few rows and a
// weight that is read as one stream. A is packed, its element (i,p) at a[p*m+i]; B's rows
// follow each other, C's are ldc bytes apart; C is read only if load is not 0. What lies ahead
// bytes further on is fetched, and with every two rows a line from soon on, step bytes apart.
// An element is one chain of fused multiply-adds over p = 0..k-1, as in a tile.
//
// Rows of bfloat16 stand in pairs: a word has row p in its low half and row p+1 in its high
// half, so that one shift and one mask widen a line.
const (
	tallParams = "k int, a *float32, b unsafe.Pointer, c *float32, ldc, load, ahead int, soon unsafe.Pointer, step int"
	tallArgs   = 9 * 8
	tallCols   = 16
	tallNear   = 512 // bytes
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
		{"k+0(FP)", "CX"},
		{"a+8(FP)", "R8"},
		{"b+16(FP)", "BX"},
		{"c+24(FP)", "DX"},
		{"ldc+32(FP)", "SI"},
		{"load+40(FP)", "R9"},
		{"ahead+48(FP)", "R13"},
		{"soon+56(FP)", "AX"},
		{"step+64(FP)", "DI"},
	} {
		a.op("MOVQ", arg[0], arg[1])
	}
	if bf16 {
		low := "X" + t.mask()[1:]
		a.op("MOVL", "$0xffff0000", "R10")
		a.op("VMOVD", "R10", low)
		a.op("VPBROADCASTD", low, t.mask())
	}
	t.start()
	line := 4 * tallCols
	pair := 2 * line // bytes of two rows of B
	if bf16 {
		pair = line
	}
	a.op("SUBQ", "$2", "CX")
	a.op("JLT", "odd")
	a.label("loop")
	t.step(0)
	t.step(1)
	for at := 0; at < pair; at += 64 { // far ahead into a second-level cache, then into the first
		a.op("PREFETCHT1", fmt.Sprintf("%d(BX)(R13*1)", at))
		a.op("PREFETCHT0", mem(tallNear+at, "BX"))
	}
	a.op("PREFETCHT1", "(AX)")
	a.op("ADDQ", "DI", "AX")
	a.op("ADDQ", fmt.Sprintf("$%d", 8*rows), "R8")
	a.op("ADDQ", fmt.Sprintf("$%d", pair), "BX")
	a.op("SUBQ", "$2", "CX")
	a.op("JGE", "loop")
	a.label("odd")
	a.op("ADDQ", "$2", "CX")
	a.op("JEQ", "store")
	t.step(0)
	a.label("store")
	t.each(func(i, j int) { a.op(s.move, t.acc(i, j), mem(s.bytes()*j, "DX")) })
	a.op("VZEROUPPER")
	a.op("RET")
	return name
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
