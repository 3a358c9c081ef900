package devicetest

import (
	"slices"

	"understudy/gpu"
)

// lengths are around the widths of registers (8, 16), of tiles (16, 32) and of tasks (16384).
func lengths() []int { return []int{1, 7, 8, 15, 16, 17, 48, 100, 576, 40000} }

func elementwise(p *Pair) {
	for _, n := range lengths() {
		a, b, c, y, z := p.Random(n, 2), p.Random(n, 2), p.Random(n, 2), p.Random(n, 1), p.Random(n, 1)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Add(of(y), of(a), of(b)) })
		p.Equal("Add", y, 1e-6)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Add(of(y), of(y), of(b)) })
		p.Equal("Add in place", y, 1e-6)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.AddScaled(of(y), 0.3, of(c)) })
		p.Equal("AddScaled", y, 1e-6)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Copy(of(z), of(y)) })
		p.Equal("Copy", z, 1e-6)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Zero(of(y)) })
		p.Equal("Zero", y, 0)
		a, b, y, z = p.Activations(n, 2), p.Activations(n, 2), p.Activations(n, 1), p.Activations(n, 1)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.AddScaled(of(y), 0.3, of(c)) })
		p.Equal("AddScaled to activations", y, 1e-6)
		c = p.Activations(n, 2)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.SwiGLU(of(y), of(a), of(b)) })
		p.Equal("SwiGLU", y, 1e-6)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.SwiGLUBackward(of(y), of(z), of(c), of(a), of(b)) })
		p.Equal("SwiGLUBackward dgate", y, 2e-6)
		p.Equal("SwiGLUBackward dup", z, 2e-6)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.SwiGLUBackward(of(a), of(b), of(c), of(a), of(b)) })
		p.Equal("SwiGLUBackward in place", a, 2e-6)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Zero(of(y)) })
		p.Equal("Zero of activations", y, 0)
	}
}

// Gates far from 0 neither overflow nor become NaN.
func swiGLUExtremes(p *Pair) {
	gate := p.ActivationsOf([]float32{-1e30, -200, -90, -88, -86.4, -30, 0, 30, 86.4, 88.5, 200, 1e30})
	up, y, z, dh := p.Activations(12, 1), p.Activations(12, 1), p.Activations(12, 1), p.Activations(12, 1)
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
		d.SwiGLU(of(y), of(gate), of(up))
		d.SwiGLUBackward(of(gate), of(z), of(dh), of(gate), of(up))
	})
	p.Equal("SwiGLU", y, 2e-6)
	p.Equal("dup", z, 2e-6)
}

func gatherScatterEmbed(p *Pair) {
	for _, c := range []int{1, 8, 33} {
		rows, slots := p.Ints(4, 0, 0, 5), p.Ints(4, 0, 2, 5)
		for _, kind := range p.types() {
			x, y, table := p.randomOf(kind, 6*c), p.randomOf(kind, 4*c), p.randomOf(kind, 6*c)
			p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Gather(of(y), of(x), of(rows)) })
			p.Equal("Gather", y, 0)
			p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Scatter(of(table), of(y), of(slots)) })
			p.Equal("Scatter", table, 0)
			p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.EmbedBackward(of(table), of(y), of(rows)) })
			p.Equal("EmbedBackward", table, 1e-6)
		}
		sum, small, first := p.ActivationsOf(slices.Repeat([]float32{1}, c)), p.ActivationsOf(slices.Repeat([]float32{1.0 / 512}, 8*c)), p.Ints(make([]int32, 8)...)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.EmbedBackward(of(sum), of(small), of(first)) })
		p.Equal("EmbedBackward of what alone would be rounded away", sum, 1e-6)
		for _, kind := range []gpu.DType{gpu.F32, gpu.BF16, gpu.F16} {
			stored, wide, y := p.Stored(kind, 6*c), p.Random(6*c, 1), p.Random(4*c, 1)
			p.Equal("Download", stored, 0)
			p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Copy(of(wide), of(stored)) })
			p.Equal("Copy", wide, 0)
			p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.Embed(of(y), of(stored), of(rows)) })
			p.Equal("Embed", y, 0)
		}
	}
}

func rmsNorm(p *Pair) {
	for _, s := range [][2]int{{1, 1}, {3, 20}, {70, 64}, {9, 576}, {200, 100}} {
		for _, kind := range p.types() {
			rmsNormOf(p, kind, s[0], s[1])
		}
	}
}

func rmsNormOf(p *Pair, kind gpu.DType, r, c int) {
	x, w, y, rstd := p.randomOf(kind, r*c), p.Random(c, 1), p.Activations(r*c, 1), p.Random(r, 1)
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.RMSNorm(of(y), of(rstd), of(x), of(w), 1e-5) })
	p.Equal("RMSNorm", y, 2e-6)
	p.Equal("rstd", rstd, 2e-6)
	dy, dx, again, dw := p.randomOf(kind, r*c), p.randomOf(kind, r*c), p.randomOf(kind, r*c), p.Random(c, 1)
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
		d.RMSNormBackward(of(dx), of(dw), of(dy), of(x), of(w), of(rstd))
		d.RMSNormBackward(of(again), gpu.Buffer{}, of(dy), of(x), of(w), of(rstd))
	})
	p.Equal("dx", dx, 1e-5)
	p.Equal("dx alone", again, 1e-5)
	p.Equal("dw", dw, 2e-5)
	if kind == gpu.ActivationType(p.Device) {
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.RMSNorm(of(x), of(rstd), of(x), of(w), 1e-5) })
		p.Equal("RMSNorm in place", x, 2e-6)
	}
}

func matMul(p *Pair) {
	for _, stored := range []gpu.DType{gpu.F32, gpu.BF16, gpu.F16} {
		for _, s := range [][3]int{{1, 5, 3}, {7, 40, 65}, {100, 33, 48}} {
			for _, in := range p.types() {
				for _, out := range p.types() {
					matMulOf(p, stored, in, out, s[0], s[1], s[2])
				}
			}
		}
	}
}

func matMulOf(p *Pair, stored, in, out gpu.DType, r, n, k int) {
	x, dy, b := p.randomOf(in, r*k), p.randomOf(in, r*n), p.Stored(stored, n*k)
	y, dx, dw := p.randomOf(out, r*n), p.randomOf(out, r*k), p.Random(n*k, 1)
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
		w := d.NewWeight(of(b), n, k)
		d.MatMul(of(y), of(x), w)
		d.MatMulBackX(of(dx), of(dy), w, true)
		d.MatMulBackW(of(dw), of(dy), of(x), r)
	})
	p.Equal("y", y, 2e-5)
	p.Equal("dx", dx, 2e-5)
	p.Equal("dw", dw, 2e-5)
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
		d.MatMulBackX(of(dx), of(dy), d.NewWeight(of(b), n, k), false)
	})
	p.Equal("dx overwritten", dx, 2e-5)
}

// A product sees a weight's new values once it was told of them.
func matMulAfterChanged(p *Pair) {
	x, b, y := p.Random(2*20, 1), p.Random(30*20, 1), p.Random(2*30, 1)
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
		w := d.NewWeight(of(b), 30, 20)
		d.MatMul(of(y), of(x), w)
		d.AddScaled(of(b), 1, of(b))
		d.Changed(w)
		d.MatMul(of(y), of(x), w)
	})
	p.Equal("y", y, 1e-5)
}

func roPE(p *Pair) {
	for _, width := range []int{2, 6, 32, 64, 96} {
		table, positions := p.Random(10*width, 1), p.Ints(9, 0, 3, 3, 1)
		for _, inverse := range []bool{false, true} {
			x := p.Activations(5*3*width, 1)
			p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
				d.RoPE(of(x), of(table), of(positions), width, inverse)
			})
			p.Equal("x", x, 1e-5)
		}
	}
}

func logProbs(p *Pair) {
	for _, v := range []int{1, 13, 300, 5000} {
		logits, scale, targets := p.Random(3*v, 4), p.Floats([]float32{1, 0.5, 2}), p.Ints(0, int32(v/2), int32(v-1))
		lse, logProb, entropy := p.Random(3, 1), p.Random(3, 1), p.Random(3, 1)
		dlogProb, dentropy := p.Random(3, 1), p.Random(3, 1)
		loss := func(of func(Buffers) gpu.Buffer) gpu.TokenLoss {
			return gpu.TokenLoss{
				Logits: of(logits), Scale: of(scale), LSE: of(lse), Targets: of(targets),
				LogProb: of(logProb), Entropy: of(entropy),
			}
		}
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) { d.LogProbs(loss(of)) })
		p.Equal("LSE", lse, 1e-6)
		p.Equal("LogProb", logProb, 1e-6)
		p.Equal("Entropy", entropy, 5e-6)
		copied := p.Random(3*v, 1)
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
			d.Copy(of(copied), of(logits))
			d.LogProbsBackward(loss(of), of(dlogProb), of(dentropy))
		})
		p.Equal("dlogits", logits, 5e-6)
		logits = copied
		p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
			only := loss(of)
			only.Targets, only.LogProb, only.Entropy = gpu.Buffer{}, gpu.Buffer{}, gpu.Buffer{}
			d.LogProbs(only)
			d.LogProbsBackward(loss(of), of(dlogProb), gpu.Buffer{})
		})
		p.Equal("LSE alone", lse, 1e-6)
		p.Equal("dlogits without entropy", logits, 5e-6)
	}
}

func adamW(p *Pair) {
	for _, n := range lengths() {
		w, g, m, v := p.Random(n, 1), p.Random(n, 1), p.Random(n, 0), p.Random(n, 0)
		for step := range 3 {
			p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
				d.AdamW(gpu.AdamWUpdate{
					P: of(w), G: of(g), M: of(m), V: of(v), LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1,
					Bias1: []float32{0.1, 0.19, 0.271}[step], Bias2: []float32{0.05, 0.0975, 0.142625}[step], GradScale: 0.5,
				})
			})
		}
		p.Equal("P", w, 2e-6)
		p.Equal("M", m, 2e-6)
		p.Equal("V", v, 2e-6)
		want, err := p.Reference.SquareSum(w.Ref)
		if err != nil {
			p.T.Fatal(err)
		}
		got, err := p.Device.SquareSum(w.Dev)
		if err != nil || got/want-1 > 1e-5 || 1-got/want > 1e-5 {
			p.T.Errorf("SquareSum of %d elements = %v, %v, want %v", n, got, err, want)
		}
	}
}

// A NaN anywhere in a row is NaN in what is made of the row: no maximum or bound hides it.
func naNIsNotHidden(p *Pair) {
	const c = 70
	d := p.Device
	for at := range c {
		row := make([]float32, c)
		row[at] = nan()
		x, gate, y := p.Floats(row), p.ActivationsOf(row), p.Activations(c, 1)
		one, gain, sum := p.Floats([]float32{1}), p.Random(c, 1), p.Random(1, 1)
		d.SwiGLU(y.Dev, gate.Dev, gate.Dev)
		if got := p.Download(y.Dev)[at]; got == got {
			p.T.Fatalf("SwiGLU of NaN at %d is %v", at, got)
		}
		d.LogProbs(gpu.TokenLoss{Logits: x.Dev, Scale: one.Dev, LSE: sum.Dev})
		if got := p.Download(sum.Dev)[0]; got == got {
			p.T.Fatalf("LSE with NaN at %d is %v", at, got)
		}
		for _, b := range []Buffers{x, gate} {
			d.RMSNorm(y.Dev, sum.Dev, b.Dev, gain.Dev, 1e-5)
			if got := p.Download(sum.Dev)[0]; got == got {
				p.T.Fatalf("RMSNorm with NaN at %d has rstd %v", at, got)
			}
			if sum, err := d.SquareSum(b.Dev); err != nil || sum == sum {
				p.T.Fatalf("SquareSum with NaN at %d is %v, %v", at, sum, err)
			}
		}
	}
	h := gpu.Heads{H: 1, G: 1, D: 16}
	q, k, v, out, lse := p.Activations(16, 1), p.Activations(16, 1), p.Activations(16, 1), p.Activations(16, 1), p.Random(1, 1)
	p.Device.Upload(k.Dev, []float32{nan()})
	d.Attend(gpu.Attention{Heads: h, Scale: 1, Out: out.Dev, LSE: lse.Dev, Q: q.Dev, K: k.Dev, V: v.Dev, Starts: p.Ints(0).Dev})
	if got := p.Download(out.Dev)[0]; got == got {
		p.T.Fatalf("attention to a key with NaN is %v", got)
	}
}
