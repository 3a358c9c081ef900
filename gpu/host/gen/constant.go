package main

import (
	"fmt"
	"math"
	"slices"
)

// constants are the read-only words of a file: float32 values, each repeated over a 256-bit
// register, and the mask table of AVX2.
type constants struct {
	values []float32
	mask   bool
}

// data is the address of a named table.
func (a *asm) data(name string) string {
	a.constants.mask = true
	return "·" + a.prefix + name + "<>(SB)"
}

// value is the operand of a constant in memory.
func (a *asm) value(v float32) string {
	i := slices.Index(a.constants.values, v)
	if i < 0 {
		i = len(a.constants.values)
		a.constants.values = append(a.constants.values, v)
	}
	return fmt.Sprintf("·%sfloats<>+%d(SB)", a.prefix, 32*i)
}

// constant fills a register.
func (b *body) constant(v float32, register string) { b.op("VBROADCASTSS", b.value(v), register) }

// opc is an instruction whose first operand is a constant.
func (b *body) opc(name string, v float32, operands ...string) {
	if b.isa.reg == "Z" {
		name += ".BCST"
	}
	b.op(name, append([]string{b.value(v)}, operands...)...)
}

// tables writes the constants that the functions of a used.
func (a *asm) tables() {
	for i, v := range a.constants.values {
		for lane := range 8 {
			fmt.Fprintf(&a.buf, "DATA ·%sfloats<>+%d(SB)/4, $0x%08x", a.prefix, 32*i+4*lane, math.Float32bits(v))
			a.buf.WriteString(map[bool]string{true: fmt.Sprintf(" // %g\n", v), false: "\n"}[lane == 0])
		}
	}
	if n := len(a.constants.values); n > 0 {
		fmt.Fprintf(&a.buf, "GLOBL ·%sfloats<>(SB), RODATA|NOPTR, $%d\n", a.prefix, 32*n)
	}
	if !a.constants.mask {
		return
	}
	const ones = 16 // then as many zeros: a load at 4·(16-n) has its first n lanes set
	for i := range 2 * ones {
		fmt.Fprintf(&a.buf, "DATA ·%smask<>+%d(SB)/4, $0x%08x\n", a.prefix, 4*i, map[bool]uint32{true: math.MaxUint32}[i < ones])
	}
	fmt.Fprintf(&a.buf, "GLOBL ·%smask<>(SB), RODATA|NOPTR, $%d\n", a.prefix, 8*ones)
}
