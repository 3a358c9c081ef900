package main

import "fmt"

// tileParams is the signature of a tile: C[m,n] (+)= A[m,k] · B[k,n], m and n fixed. Strides
// are in bytes: A's element (i,p) is at a+i*rs+p*cs, B's row p at b+p*ldb, C's row i at
// c+i*ldc. C is read only if load is not 0. With row p of B, as much is asked for from
// b+ahead+p*step on, which will be needed soon. Every element is one chain of fused
// multiply-adds over p = 0..k-1, whatever the tile's height, so that a row alone equals the
// row in a batch.
const (
	tileParams = "k int, a *float32, rs, cs int, b unsafe.Pointer, ldb int, c *float32, ldc, load, ahead, step int"
	tileArgs   = 11 * 8
)

func tileName(s isa, t tile, rows int) string {
	if rows == 0 {
		return s.name + t.name + "Tiles"
	}
	return fmt.Sprintf("%s%s%d", s.name, t.name, rows)
}

// tile writes one tile and returns its name.
func (a *asm) tile(s isa, t tile, rows int) string {
	name := tileName(s, t, rows)
	a.text(name, tileParams, tileArgs)
	a.tileArguments(rows)
	a.prefetchC(s, t, rows)
	acc := func(i, j int) string { return s.r(t.cols*i + j) }
	a.tileStart(s, t, rows, acc)
	b := func(j int) string { return s.r(t.cols*rows + j) }
	mask := s.r(t.cols*rows + t.cols) // bf16 only
	if t.bf16 {
		low := fmt.Sprintf("X%d", t.cols*rows+t.cols)
		a.op("MOVL", "$0xffff0000", "R13")
		a.op("VMOVD", "R13", low)
		a.op("VPBROADCASTD", low, mask)
	}
	a.op("TESTQ", "CX", "CX")
	a.op("JLE", "store")
	a.op("MOVQ", "ahead+72(FP)", "R13")
	a.op("ADDQ", "BX", "R13")
	a.op("MOVQ", "step+80(FP)", "DX") // C's address comes back for the stores
	a.label("loop")
	a.tileB(s, t, b, mask)
	for i := range rows {
		from := rowAddress(i)
		if t.cols == 1 { // an element of A is used once
			a.op("VFMADD231PS.BCST", from, b(0), acc(i, 0))
			continue
		}
		x := s.r(s.spare() + i%(s.registers()-s.spare()))
		a.op("VBROADCASTSS", from, x)
		for j := range t.cols {
			a.op("VFMADD231PS", x, b(j), acc(i, j))
		}
	}
	for i := 0; i < rows; i += 4 {
		a.op("ADDQ", "AX", []string{"R8", "R11", "R12"}[i/4])
	}
	for line := 0; line < t.cols*s.bytes(); line += 64 {
		a.op("PREFETCHT0", mem(line, "R13"))
	}
	a.op("ADDQ", "DX", "R13")
	a.op("ADDQ", "DI", "BX")
	a.op("DECQ", "CX")
	a.op("JNZ", "loop")
	a.label("store")
	a.op("MOVQ", "c+48(FP)", "DX")
	for i := range rows {
		for j := range t.cols {
			a.op(s.move, acc(i, j), mem(s.bytes()*j, "DX"))
		}
		if i < rows-1 {
			a.op("ADDQ", "SI", "DX")
		}
	}
	a.op("VZEROUPPER")
	a.op("RET")
	return name
}

// tileArguments loads the arguments: A's rows 0, 4 and 8 stand in R8, R11 and R12, the
// stride in R9 and three times the stride in R10.
func (a *asm) tileArguments(rows int) {
	for _, arg := range [][2]string{
		{"k+0(FP)", "CX"},
		{"a+8(FP)", "R8"},
		{"rs+16(FP)", "R9"},
		{"cs+24(FP)", "AX"},
		{"b+32(FP)", "BX"},
		{"ldb+40(FP)", "DI"},
		{"c+48(FP)", "DX"},
		{"ldc+56(FP)", "SI"},
		{"load+64(FP)", "R13"},
	} {
		a.op("MOVQ", arg[0], arg[1])
	}
	a.op("LEAQ", "(R9)(R9*2)", "R10")
	if rows > 4 {
		a.op("LEAQ", "(R8)(R9*4)", "R11")
	}
	if rows > 8 {
		a.op("LEAQ", "(R11)(R9*4)", "R12")
	}
}

// tileStart sets the accumulators to C or to zero.
func (a *asm) tileStart(s isa, t tile, rows int, acc func(i, j int) string) {
	a.op("TESTQ", "R13", "R13")
	a.op("JEQ", "zero")
	a.op("MOVQ", "DX", "R13")
	for i := range rows {
		for j := range t.cols {
			a.op(s.move, mem(s.bytes()*j, "R13"), acc(i, j))
		}
		if i < rows-1 {
			a.op("ADDQ", "SI", "R13")
		}
	}
	a.op("JMP", "start")
	a.label("zero")
	for i := range rows {
		for j := range t.cols {
			a.op("VXORPS", acc(i, j), acc(i, j), acc(i, j))
		}
	}
	a.label("start")
}

// tileB loads one row of B. A packed bfloat16 row interleaves the two registers: column j is
// the low half of word j, column lanes+j the high half, so that one shift and one mask widen
// them.
func (a *asm) tileB(s isa, t tile, b func(int) string, mask string) {
	if !t.bf16 {
		for j := range t.cols {
			a.op(s.move, mem(s.bytes()*j, "BX"), b(j))
		}
		return
	}
	if s.reg == "Z" {
		a.op("VPSLLD", "$16", "(BX)", b(0))
		a.op("VPANDD", "(BX)", mask, b(1))
		return
	}
	a.op("VMOVDQU", "(BX)", b(1))
	a.op("VPSLLD", "$16", b(1), b(0))
	a.op("VPAND", mask, b(1), b(1))
}

// rowAddress is the operand of A's element in row i.
func rowAddress(i int) string {
	base := []string{"R8", "R11", "R12"}[i/4]
	index := []string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[i%4]
	return "(" + base + ")" + index
}

// prefetchC asks for the rows of C below the tile, which are the next tile's.
func (a *asm) prefetchC(s isa, t tile, rows int) {
	a.op("MOVQ", "SI", "R13")
	a.op("IMULQ", fmt.Sprintf("$%d", rows), "R13")
	a.op("ADDQ", "DX", "R13")
	for range rows {
		for line := 0; line < t.cols*s.bytes(); line += 64 {
			a.op("PREFETCHT0", mem(line, "R13"))
		}
		a.op("ADDQ", "SI", "R13")
	}
	a.op("MOVQ", "load+64(FP)", "R13")
}
