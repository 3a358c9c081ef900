package gpu

import "math"

// forward is the one forward pass: runners call it on rows of many sequences,
// trainers on packed ones. Only attention differs between them.
type forward struct {
	*Model
	rope      Buffer // (context,D), see Device.RoPE
	positions Buffer // (R) I32
	spans     []adapterRows
	branch    Buffer // (R,C) what attention or the MLP adds to the residual
	low, wide Buffer // (R,rank), (R,N) of adapters
}

// layerActs is what one layer computes for R rows. The residual and what is summed of a row stay F32;
// the rest, which products and attention read, is of the device's ActivationType.
type layerActs struct {
	x            Buffer // (R,C) the residual that enters
	rstd1, n1    Buffer // (R), (R,C)
	q, k, v      Buffer // (R,H,D), (R,G,D), (R,G,D) as projected
	rstdQ, rstdK Buffer // (R,H), (R,G)
	qr, kr       Buffer // normalised and rotated; without norms q and k themselves, rotated in place
	att, lse     Buffer // (R,H,D), (R,H)
	mid          Buffer // (R,C) the residual between attention and MLP
	rstd2, n2    Buffer // (R), (R,C)
	gate, up, h  Buffer // (R,F)
}

// layerSizes gives each buffer of layerActs, its elements per row and their type, in order; act is that of
// activations.
func (c Config) layerSizes(a *layerActs, act DType) []rowBuffer {
	list := []rowBuffer{
		{&a.x, c.Width, F32},
		{&a.rstd1, 1, F32},
		{&a.n1, c.Width, act},
		{&a.q, c.H * c.D, act},
		{&a.k, c.G * c.D, act},
		{&a.v, c.G * c.D, act},
		{&a.att, c.H * c.D, act},
		{&a.lse, c.H, F32},
		{&a.mid, c.Width, F32},
		{&a.rstd2, 1, F32},
		{&a.n2, c.Width, act},
		{&a.gate, c.Hidden, act},
		{&a.up, c.Hidden, act},
		{&a.h, c.Hidden, act},
	}
	if c.QKNorm() {
		list = append(list, rowBuffer{&a.rstdQ, c.H, F32}, rowBuffer{&a.rstdK, c.G, F32},
			rowBuffer{&a.qr, c.H * c.D, act}, rowBuffer{&a.kr, c.G * c.D, act})
	}
	return list
}

// rows is a for the first r rows only.
func (a layerActs) rows(c Config, r int) layerActs {
	for _, b := range c.layerSizes(&a, a.n1.Type) {
		*b.buffer = b.buffer.Slice(0, r*b.perRow)
	}
	if !c.QKNorm() {
		a.qr, a.kr = a.q, a.k
	}
	return a
}

// queryKeyValue goes from the residual to rotated queries and keys, and values.
func (f *forward) queryKeyValue(l int, a *layerActs) {
	w := f.w.layers[l]
	f.dev.RMSNorm(a.n1, a.rstd1, a.x, w.norm1, f.Eps)
	f.project(a.q, a.n1, l, projQ)
	f.project(a.k, a.n1, l, projK)
	f.project(a.v, a.n1, l, projV)
	if f.QKNorm() {
		f.dev.RMSNorm(a.qr, a.rstdQ, a.q, w.qnorm, f.Eps)
		f.dev.RMSNorm(a.kr, a.rstdK, a.k, w.knorm, f.Eps)
	}
	f.dev.RoPE(a.qr, f.rope, f.positions, f.D, false)
	f.dev.RoPE(a.kr, f.rope, f.positions, f.D, false)
}

// outputAndGates goes from what attention gathered to the MLP's hidden values.
func (f *forward) outputAndGates(l int, a *layerActs) {
	branch := f.branch.Slice(0, a.x.Len)
	f.project(branch, a.att, l, projO)
	f.dev.Add(a.mid, a.x, branch)
	f.dev.RMSNorm(a.n2, a.rstd2, a.mid, f.w.layers[l].norm2, f.Eps)
	f.project(a.gate, a.n2, l, projGate)
	f.project(a.up, a.n2, l, projUp)
	f.dev.SwiGLU(a.h, a.gate, a.up)
}

// down goes from the hidden values to y, the residual that leaves the layer; y
// may be a.x.
func (f *forward) down(l int, a *layerActs, y Buffer) {
	branch := f.branch.Slice(0, a.x.Len)
	f.project(branch, a.h, l, projDown)
	f.dev.Add(y, a.mid, branch)
}

// project: y (R,N) = x (R,K)·wᵀ, plus what the adapters of some rows add.
func (f *forward) project(y, x Buffer, l, p int) {
	w := f.proj[l][p]
	f.dev.MatMul(y, x, w)
	for _, s := range f.spans {
		lora := s.adapter.layers[l][p]
		if lora == nil {
			continue
		}
		low := f.low.Slice(0, (s.to-s.from)*lora.a.N)
		wide := f.wide.Slice(0, (s.to-s.from)*w.N)
		f.dev.MatMul(low, x.Slice(s.from*w.K, s.to*w.K), lora.a)
		f.dev.MatMul(wide, low, lora.b)
		f.dev.AddScaled(y.Slice(s.from*w.N, s.to*w.N), s.adapter.scale(), wide)
	}
}

// attentionScale is 1/sqrt(D).
func (c Config) attentionScale() float32 { return float32(1 / math.Sqrt(float64(c.D))) }

// headActs is what follows the layers, for M wanted rows.
type headActs struct {
	x, rstd, n Buffer // (M,C), (M), (M,C); n is what the head reads, of ActivationType
}

// headSizes is layerSizes for headActs.
func (c Config) headSizes(a *headActs, act DType) []rowBuffer {
	return []rowBuffer{{&a.x, c.Width, F32}, {&a.rstd, 1, F32}, {&a.n, c.Width, act}}
}

// finalNorm gathers the wanted rows (M) of x (R,C) and normalises them.
func (f *forward) finalNorm(a *headActs, x, rows Buffer) {
	f.dev.Gather(a.x, x, rows)
	f.dev.RMSNorm(a.n, a.rstd, a.x, f.w.norm, f.Eps)
}
