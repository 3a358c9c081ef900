package main

import (
	"fmt"
	"strings"
)

// loop describes a kernel over n elements of a few streams, n > 0. Its body is written twice:
// for a full register, and for the elements that are left over, which are loaded and stored
// under a mask so that nothing outside of the streams is touched.
type loop struct {
	name    string
	streams []string // *float32 parameters
	scalars []string // float32 parameters
	sums    []string // float32 results: Σ over the lanes of an accumulator
	max     string   // float32 result: the greatest lane of an accumulator
	body    func(b *body)
}

// params is the signature of the kernel.
func (l loop) params() string {
	list := append([]string{"n int"}, strings.Join(l.streams, ", ")+" *float32")
	if len(l.scalars) > 0 {
		list = append(list, strings.Join(l.scalars, ", ")+" float32")
	}
	return strings.Join(list, ", ")
}

func (l loop) results() []string {
	if l.max != "" {
		return []string{l.max}
	}
	return l.sums
}

// signature is that of a Go function or a function type.
func (l loop) signature() string {
	if r := l.results(); len(r) > 0 {
		return fmt.Sprintf("(%s) (%s float32)", l.params(), strings.Join(r, ", "))
	}
	return fmt.Sprintf("(%s)", l.params())
}

// body writes instructions for one register of each stream.
type body struct {
	*asm
	isa
	loop     loop
	pointers map[string]string
	scalar   map[string]string
	acc      map[string]string
	next     int // the first register that is free
	tail     bool
}

// kernel writes the loop for one instruction set.
func (a *asm) kernel(s isa, l loop) {
	scalars := 8 + 8*len(l.streams)
	results := (scalars + 4*len(l.scalars) + 7) &^ 7
	args := scalars + 4*len(l.scalars)
	if len(l.results()) > 0 {
		args = results + 4*len(l.results())
	}
	a.text(s.name+l.name, l.params(), args)
	b := &body{asm: a, isa: s, loop: l, pointers: map[string]string{}, scalar: map[string]string{}, acc: map[string]string{}}
	a.op("MOVQ", "n+0(FP)", "CX")
	for i, name := range l.streams {
		b.pointers[name] = fmt.Sprintf("R%d", 8+i)
		a.op("MOVQ", fmt.Sprintf("%s+%d(FP)", name, 8+8*i), b.pointers[name])
	}
	for i, name := range l.scalars {
		b.scalar[name] = b.reg()
		a.op("VBROADCASTSS", fmt.Sprintf("%s+%d(FP)", name, scalars+4*i), b.scalar[name])
	}
	for _, name := range l.results() {
		b.acc[name] = b.reg()
		if l.max != "" {
			b.constant(negInf(), b.acc[name])
		} else {
			a.op("VXORPS", b.acc[name], b.acc[name], b.acc[name])
		}
	}
	free := b.next
	a.op("XORQ", "AX", "AX")
	a.op("SUBQ", fmt.Sprintf("$%d", s.lanes), "CX")
	a.op("JLT", "rest")
	a.label("full")
	l.body(b)
	a.op("ADDQ", fmt.Sprintf("$%d", s.bytes()), "AX")
	a.op("SUBQ", fmt.Sprintf("$%d", s.lanes), "CX")
	a.op("JGE", "full")
	a.label("rest")
	a.op("ADDQ", fmt.Sprintf("$%d", s.lanes), "CX")
	a.op("JEQ", "done")
	b.next, b.tail = free, true
	b.mask()
	l.body(b)
	a.label("done")
	for i, name := range l.results() {
		b.next = free
		b.reduce(b.acc[name], map[bool]string{true: "VMAXPS", false: "VADDPS"}[l.max != ""])
		a.op("VMOVSS", x(b.acc[name]), fmt.Sprintf("%s+%d(FP)", name, results+4*i))
	}
	a.op("VZEROUPPER")
	a.op("RET")
}

// x is the low quarter or half of a register.
func x(register string) string { return "X" + register[1:] }

// reg takes a free register. In AVX2 the last is kept for the mask.
func (b *body) reg() string {
	if limit := map[string]int{"Z": 32, "Y": 15}[b.isa.reg]; b.next == limit {
		panic("gen: " + b.loop.name + " needs too many registers")
	}
	b.next++
	return b.r(b.next - 1)
}

// with lets f take registers that are free again afterwards.
func (b *body) with(f func()) {
	at := b.next
	f()
	b.next = at
}

// mask makes the lanes below CX (1..lanes) those of masked loads and stores.
func (b *body) mask() {
	if b.isa.reg == "Z" {
		b.op("MOVL", "$1", "DX")
		b.op("SHLL", "CX", "DX")
		b.op("DECL", "DX")
		b.op("KMOVW", "DX", "K2")
		return
	}
	b.op("LEAQ", b.data("mask"), "DX")
	b.op("NEGQ", "CX")
	b.op("VMOVDQU", "64(DX)(CX*4)", "Y15")
}

func (b *body) at(stream string) string { return "(" + b.pointers[stream] + ")(AX*1)" }

// load gives a register of the stream; lanes past the end are zero.
func (b *body) load(stream string) string {
	r := b.reg()
	switch {
	case !b.tail:
		b.op("VMOVUPS", b.at(stream), r)
	case b.isa.reg == "Z":
		b.op("VMOVUPS.Z", b.at(stream), "K2", r)
	default:
		b.op("VMASKMOVPS", b.at(stream), "Y15", r)
	}
	return r
}

func (b *body) store(stream, r string) {
	switch {
	case !b.tail:
		b.op("VMOVUPS", r, b.at(stream))
	case b.isa.reg == "Z":
		b.op("VMOVUPS", r, "K2", b.at(stream))
	default:
		b.op("VMASKMOVPS", r, "Y15", b.at(stream))
	}
}

// inside sets lanes past the end to the constant.
func (b *body) inside(r string, outside float32) {
	if !b.tail {
		return
	}
	b.with(func() {
		c := b.reg()
		b.constant(outside, c)
		if b.isa.reg == "Z" {
			b.op("VMOVUPS", r, "K2", c)
			b.op("VMOVAPS", c, r)
		} else {
			b.op("VBLENDVPS", "Y15", r, c, r)
		}
	})
}

// reduce leaves the sum or the maximum of all lanes in lane 0, always in the same order.
func (b *body) reduce(r, op string) {
	b.with(func() {
		t := b.reg()
		if b.isa.reg == "Z" {
			b.op("VEXTRACTF64X4", "$1", r, "Y"+t[1:])
			b.op(op, "Y"+t[1:], "Y"+r[1:], "Y"+r[1:])
			b.op("VEXTRACTF32X4", "$1", "Y"+r[1:], x(t))
		} else {
			b.op("VEXTRACTF128", "$1", r, x(t))
		}
		b.op(op, x(t), x(r), x(r))
		b.op("VPERMILPS", "$0x4e", x(r), x(t)) // swap pairs
		b.op(op, x(t), x(r), x(r))
		b.op("VPERMILPS", "$0xb1", x(r), x(t)) // swap neighbours
		b.op(op, x(t), x(r), x(r))
	})
}
