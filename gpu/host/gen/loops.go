package main

import "math"

// loops are the kernels over rows of activations, weights and gradients. Each comment gives
// the formula per element.
func loops() []loop {
	return append(elementwise(), reductions()...)
}

func elementwise() []loop {
	return []loop{
		{name: "Add", streams: []string{"y", "a", "b"}, body: func(b *body) { // y = a + b
			r, s := b.load("a"), b.load("b")
			b.op("VADDPS", r, s, r)
			b.store("y", r)
		}},
		{name: "AddScaled", streams: []string{"y", "x"}, scalars: []string{"s"}, body: func(b *body) { // y += s·x
			y := b.load("y")
			b.op("VFMADD231PS", b.load("x"), b.scalar["s"], y)
			b.store("y", y)
		}},
		{name: "Scale", streams: []string{"y", "x"}, scalars: []string{"s"}, body: func(b *body) { // y = s·x
			x := b.load("x")
			b.op("VMULPS", x, b.scalar["s"], x)
			b.store("y", x)
		}},
		{name: "ScaleBy", streams: []string{"y", "x", "w"}, scalars: []string{"s"}, body: func(b *body) { // y = x·s·w
			x := b.load("x")
			b.op("VMULPS", x, b.scalar["s"], x)
			b.op("VMULPS", x, b.load("w"), x)
			b.store("y", x)
		}},
		{name: "NormBackward", streams: []string{"dx", "dy", "w", "x"}, scalars: []string{"s", "c"}, body: func(b *body) { // dx += s·dy·w − c·x
			dx, dy := b.load("dx"), b.load("dy")
			b.op("VMULPS", dy, b.load("w"), dy)
			b.op("VFMADD231PS", dy, b.scalar["s"], dx)
			b.op("VFNMADD231PS", b.load("x"), b.scalar["c"], dx)
			b.store("dx", dx)
		}},
		{name: "AddProduct", streams: []string{"y", "a", "b"}, scalars: []string{"s"}, body: func(b *body) { // y += s·a·b
			y, p := b.load("y"), b.load("a")
			b.op("VMULPS", p, b.scalar["s"], p)
			b.op("VFMADD231PS", p, b.load("b"), y)
			b.store("y", y)
		}},
		{name: "Rotate", streams: []string{"a", "b", "cos", "sin"}, scalars: []string{"sign"}, body: rotate},
		{name: "SwiGLU", streams: []string{"h", "gate", "up"}, body: swiGLU},
		{name: "SwiGLUBackward", streams: []string{"dgate", "dup", "dh", "gate", "up"}, body: swiGLUBackward},
		{name: "LogitGrad", streams: []string{"z"}, scalars: []string{"scale", "lse", "c0", "c1"}, body: logitGrad},
		{name: "ScoreGrad", streams: []string{"s", "dp"}, scalars: []string{"scale", "lse", "delta"}, body: scoreGrad},
		{
			name: "AdamW", streams: []string{"p", "grad", "m", "v"}, body: adamW,
			scalars: []string{"gradScale", "beta1", "rest1", "beta2", "rest2", "keep", "rate", "unbias2", "eps"},
		},
	}
}

// rotate turns the pairs (a,b): a = a·cos − b·s, b = b·cos + a·s with s = sign·sin.
func rotate(b *body) {
	x, y, cos, sin := b.load("a"), b.load("b"), b.load("cos"), b.load("sin")
	b.op("VMULPS", b.scalar["sign"], sin, sin)
	left, right := b.reg(), b.reg()
	b.op("VMULPS", x, cos, left)
	b.op("VFNMADD231PS", y, sin, left)
	b.op("VMULPS", y, cos, right)
	b.op("VFMADD231PS", x, sin, right)
	b.store("a", left)
	b.store("b", right)
}

// sigmoid replaces r by 1/(1+e^-r).
func (b *body) sigmoid(r string) {
	b.with(func() {
		one := b.reg()
		b.op("VXORPS", one, one, one)
		b.op("VSUBPS", r, one, r)
		b.exp(r)
		b.constant(1, one)
		b.op("VADDPS", one, r, r)
		b.op("VDIVPS", r, one, r)
	})
}

// swiGLU is h = gate·sigmoid(gate)·up.
func swiGLU(b *body) {
	gate, s := b.load("gate"), b.reg()
	b.op("VMOVAPS", gate, s)
	b.sigmoid(s)
	b.op("VMULPS", gate, s, s)
	b.op("VMULPS", b.load("up"), s, s)
	b.store("h", s)
}

// swiGLUBackward: with s = sigmoid(gate), dup = dh·gate·s and
// dgate = dh·up·(s + gate·s·(1−s)).
func swiGLUBackward(b *body) {
	gate, s, dh, up := b.load("gate"), b.reg(), b.load("dh"), b.load("up")
	b.op("VMOVAPS", gate, s)
	b.sigmoid(s)
	swish, slope := b.reg(), b.reg()
	b.op("VMULPS", gate, s, swish)
	b.op("VMOVAPS", s, slope)
	b.op("VFNMADD213PS", swish, swish, slope) // swish − swish·s
	b.op("VADDPS", s, slope, slope)
	b.op("VMULPS", dh, up, up)
	b.op("VMULPS", slope, up, up)
	b.op("VMULPS", dh, swish, swish)
	b.store("dgate", up)
	b.store("dup", swish)
}

// shifted is scale·x − by of a stream, no less than a number whose exponential is 0, so that
// it can be multiplied by it.
func (b *body) shifted(stream, by string) string {
	const least = -1000
	r := b.load(stream)
	b.op("VFMSUB213PS", b.scalar[by], b.scalar["scale"], r)
	b.with(func() {
		low := b.reg()
		b.constant(least, low)
		b.op("VMAXPS", r, low, r)
	})
	return r
}

// logitGrad: with l = scale·z − lse, z = e^l·(c0 + c1·l).
func logitGrad(b *body) {
	l, e := b.shifted("z", "lse"), b.reg()
	b.op("VMOVAPS", l, e)
	b.exp(e)
	b.op("VFMADD213PS", b.scalar["c0"], b.scalar["c1"], l)
	b.op("VMULPS", l, e, e)
	b.store("z", e)
}

// scoreGrad: with p = e^(scale·s − lse), s = p and dp = p·(dp − delta)·scale.
func scoreGrad(b *body) {
	p, dp := b.shifted("s", "lse"), b.load("dp")
	b.exp(p)
	b.store("s", p)
	b.op("VSUBPS", b.scalar["delta"], dp, dp)
	b.op("VMULPS", p, dp, dp)
	b.op("VMULPS", b.scalar["scale"], dp, dp)
	b.store("dp", dp)
}

// adamW is gpu.AdamWUpdate with keep = 1−LR·Decay, rate = LR/Bias1, unbias2 = 1/Bias2.
func adamW(b *body) {
	p, g, m, v := b.load("p"), b.load("grad"), b.load("m"), b.load("v")
	b.op("VMULPS", b.scalar["gradScale"], g, g)
	b.op("VMULPS", b.scalar["beta1"], m, m)
	b.op("VFMADD231PS", g, b.scalar["rest1"], m)
	b.op("VMULPS", g, g, g)
	b.op("VMULPS", b.scalar["beta2"], v, v)
	b.op("VFMADD231PS", g, b.scalar["rest2"], v)
	b.store("m", m)
	b.store("v", v)
	b.op("VMULPS", b.scalar["unbias2"], v, v)
	b.op("VSQRTPS", v, v)
	b.op("VADDPS", b.scalar["eps"], v, v)
	b.op("VDIVPS", v, m, m) // m/v
	b.op("VMULPS", b.scalar["keep"], p, p)
	b.op("VFNMADD231PS", m, b.scalar["rate"], p)
	b.store("p", p)
}

func reductions() []loop {
	return []loop{
		{name: "Dot", streams: []string{"x", "y"}, sums: []string{"sum"}, body: func(b *body) { // Σ x·y
			b.op("VFMADD231PS", b.load("x"), b.load("y"), b.acc["sum"])
		}},
		{name: "Dot3", streams: []string{"x", "y", "z"}, sums: []string{"sum"}, body: func(b *body) { // Σ x·y·z
			x := b.load("x")
			b.op("VMULPS", b.load("y"), x, x)
			b.op("VFMADD231PS", b.load("z"), x, b.acc["sum"])
		}},
		{name: "Max", streams: []string{"x"}, max: "top", body: func(b *body) {
			x := b.load("x")
			b.inside(x, negInf())
			b.op("VMAXPS", x, b.acc["top"], b.acc["top"])
		}},
		{name: "ExpSum", streams: []string{"x"}, scalars: []string{"scale", "top"}, sums: []string{"sum", "moment"}, body: func(b *body) {
			// with t = scale·x − top: Σ e^t and Σ t·e^t
			t, e := b.shifted("x", "top"), b.reg()
			b.op("VMOVAPS", t, e)
			b.exp(e)
			b.inside(e, 0)
			b.op("VADDPS", e, b.acc["sum"], b.acc["sum"])
			b.op("VFMADD231PS", e, t, b.acc["moment"])
		}},
	}
}

func negInf() float32 { return float32(math.Inf(-1)) }
