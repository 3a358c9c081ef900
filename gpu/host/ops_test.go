package host_test

import (
	"testing"

	"understudy/gpu"
)

// lengths are around the widths of registers (8, 16), of tiles (16, 32) and of tasks (16384).
func lengths() []int { return []int{1, 7, 8, 15, 16, 17, 48, 100, 576, 40000} }

func TestElementwise(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		for _, n := range lengths() {
			a, b, c, y, z := p.random(n, 2), p.random(n, 2), p.random(n, 2), p.random(n, 1), p.random(n, 1)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.Add(of(y), of(a), of(b)) })
			p.equal("Add", y, 1e-6)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.Add(of(y), of(y), of(b)) })
			p.equal("Add in place", y, 1e-6)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.AddScaled(of(y), 0.3, of(c)) })
			p.equal("AddScaled", y, 1e-6)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.Copy(of(z), of(y)) })
			p.equal("Copy", z, 1e-6)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.SwiGLU(of(y), of(a), of(b)) })
			p.equal("SwiGLU", y, 1e-6)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.SwiGLUBackward(of(y), of(z), of(c), of(a), of(b)) })
			p.equal("SwiGLUBackward dgate", y, 2e-6)
			p.equal("SwiGLUBackward dup", z, 2e-6)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.SwiGLUBackward(of(a), of(b), of(c), of(a), of(b)) })
			p.equal("SwiGLUBackward in place", a, 2e-6)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.Zero(of(y)) })
			p.equal("Zero", y, 0)
		}
	})
}

// Gates far from 0 neither overflow nor become NaN.
func TestSwiGLUExtremes(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		gate := p.floats([]float32{-1e30, -200, -90, -88, -86.4, -30, 0, 30, 86.4, 88.5, 200, 1e30})
		up, y, z, dh := p.random(12, 1), p.random(12, 1), p.random(12, 1), p.random(12, 1)
		p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
			d.SwiGLU(of(y), of(gate), of(up))
			d.SwiGLUBackward(of(gate), of(z), of(dh), of(gate), of(up))
		})
		p.equal("SwiGLU", y, 2e-6)
		p.equal("dup", z, 2e-6)
	})
}

func TestGatherScatterEmbed(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		for _, c := range []int{1, 8, 33} {
			x, rows := p.random(6*c, 1), p.ints(4, 0, 0, 5)
			y, table := p.random(4*c, 1), p.random(6*c, 1)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.Gather(of(y), of(x), of(rows)) })
			p.equal("Gather", y, 0)
			slots := p.ints(4, 0, 2, 5)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.Scatter(of(table), of(y), of(slots)) })
			p.equal("Scatter", table, 0)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.EmbedBackward(of(table), of(y), of(rows)) })
			p.equal("EmbedBackward", table, 1e-6)
			for _, kind := range []gpu.DType{gpu.F32, gpu.BF16, gpu.F16} {
				stored := p.stored(kind, 6*c)
				p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.Embed(of(y), of(stored), of(rows)) })
				p.equal("Embed", y, 0)
			}
		}
	})
}

func TestRMSNorm(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		for _, s := range [][2]int{{1, 1}, {3, 20}, {70, 64}, {9, 576}, {200, 100}} {
			r, c := s[0], s[1]
			x, w, y, rstd := p.random(r*c, 3), p.random(c, 1), p.random(r*c, 1), p.random(r, 1)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.RMSNorm(of(y), of(rstd), of(x), of(w), 1e-5) })
			p.equal("RMSNorm", y, 2e-6)
			p.equal("rstd", rstd, 2e-6)
			dy, dx, dw := p.random(r*c, 1), p.random(r*c, 1), p.random(c, 1)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
				d.RMSNormBackward(of(dx), of(dw), of(dy), of(x), of(w), of(rstd))
				d.RMSNormBackward(of(dx), gpu.Buffer{}, of(dy), of(x), of(w), of(rstd))
				d.RMSNorm(of(x), of(rstd), of(x), of(w), 1e-5)
			})
			p.equal("dx", dx, 1e-5)
			p.equal("dw", dw, 2e-5)
			p.equal("RMSNorm in place", x, 2e-6)
		}
	})
}

func TestMatMul(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		for _, kind := range []gpu.DType{gpu.F32, gpu.BF16, gpu.F16} {
			for _, s := range [][3]int{{1, 5, 3}, {7, 40, 65}, {100, 33, 48}} {
				r, n, k := s[0], s[1], s[2]
				x, dy, b, y, dx, dw := p.random(r*k, 1), p.random(r*n, 1), p.stored(kind, n*k), p.random(r*n, 1), p.random(r*k, 1), p.random(n*k, 1)
				p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
					w := d.NewWeight(of(b), n, k)
					d.MatMul(of(y), of(x), w)
					d.MatMulBackX(of(dx), of(dy), w, true)
					d.MatMulBackW(of(dw), of(dy), of(x), r)
				})
				p.equal("y", y, 2e-5)
				p.equal("dx", dx, 2e-5)
				p.equal("dw", dw, 2e-5)
				p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
					d.MatMulBackX(of(dx), of(dy), d.NewWeight(of(b), n, k), false)
				})
				p.equal("dx overwritten", dx, 2e-5)
			}
		}
	})
}

// A product sees a weight's new values once it was told of them.
func TestMatMulAfterChanged(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		x, b, y := p.random(2*20, 1), p.random(30*20, 1), p.random(2*30, 1)
		p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
			w := d.NewWeight(of(b), 30, 20)
			d.MatMul(of(y), of(x), w)
			d.AddScaled(of(b), 1, of(b))
			d.Changed(w)
			d.MatMul(of(y), of(x), w)
		})
		p.equal("y", y, 1e-5)
	})
}

func TestRoPE(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		for _, width := range []int{2, 6, 32, 64, 96} {
			x, table, positions := p.random(5*3*width, 1), p.random(10*width, 1), p.ints(9, 0, 3, 3, 1)
			for _, inverse := range []bool{false, true} {
				p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
					d.RoPE(of(x), of(table), of(positions), width, inverse)
				})
				p.equal("x", x, 1e-5)
			}
		}
	})
}

func TestLogProbs(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		for _, v := range []int{1, 13, 300, 5000} {
			logits, scale, targets := p.random(3*v, 4), p.floats([]float32{1, 0.5, 2}), p.ints(0, int32(v/2), int32(v-1))
			lse, logProb, entropy := p.random(3, 1), p.random(3, 1), p.random(3, 1)
			dlogProb, dentropy := p.random(3, 1), p.random(3, 1)
			loss := func(of func(buffers) gpu.Buffer) gpu.TokenLoss {
				return gpu.TokenLoss{
					Logits: of(logits), Scale: of(scale), LSE: of(lse), Targets: of(targets),
					LogProb: of(logProb), Entropy: of(entropy),
				}
			}
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) { d.LogProbs(loss(of)) })
			p.equal("LSE", lse, 1e-6)
			p.equal("LogProb", logProb, 1e-6)
			p.equal("Entropy", entropy, 5e-6)
			copied := p.random(3*v, 1)
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
				d.Copy(of(copied), of(logits))
				d.LogProbsBackward(loss(of), of(dlogProb), of(dentropy))
			})
			p.equal("dlogits", logits, 5e-6)
			logits = copied
			p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
				only := loss(of)
				only.Targets, only.LogProb, only.Entropy = gpu.Buffer{}, gpu.Buffer{}, gpu.Buffer{}
				d.LogProbs(only)
				d.LogProbsBackward(loss(of), of(dlogProb), gpu.Buffer{})
			})
			p.equal("LSE alone", lse, 1e-6)
			p.equal("dlogits without entropy", logits, 5e-6)
		}
	})
}

func TestAdamW(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		for _, n := range lengths() {
			w, g, m, v := p.random(n, 1), p.random(n, 1), p.random(n, 0), p.random(n, 0)
			for step := range 3 {
				p.both(func(d gpu.Device, of func(buffers) gpu.Buffer) {
					d.AdamW(gpu.AdamWUpdate{
						P: of(w), G: of(g), M: of(m), V: of(v), LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1,
						Bias1: []float32{0.1, 0.19, 0.271}[step], Bias2: []float32{0.05, 0.0975, 0.142625}[step], GradScale: 0.5,
					})
				})
			}
			p.equal("P", w, 2e-6)
			p.equal("M", m, 2e-6)
			p.equal("V", v, 2e-6)
			want, err := p.ref.SquareSum(w.ref)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.host.SquareSum(w.host)
			if err != nil || got/want-1 > 1e-5 || 1-got/want > 1e-5 {
				t.Errorf("SquareSum of %d elements = %v, %v, want %v", n, got, err, want)
			}
		}
	})
}

// A NaN anywhere in a row is NaN in what is made of the row: no maximum or bound hides it.
func TestNaNIsNotHidden(t *testing.T) {
	t.Parallel()
	eachDevice(t, func(p *pair) {
		const c = 70
		d := p.host
		for at := range c {
			row := make([]float32, c)
			row[at] = nan()
			x, one, y, lse := p.floats(row), p.floats([]float32{1}), p.random(c, 1), p.random(1, 1)
			d.SwiGLU(y.host, x.host, x.host)
			if got := download(t, d, y.host)[at]; got == got {
				t.Fatalf("SwiGLU of NaN at %d is %v", at, got)
			}
			d.LogProbs(gpu.TokenLoss{Logits: x.host, Scale: one.host, LSE: lse.host})
			if got := download(t, d, lse.host)[0]; got == got {
				t.Fatalf("LSE with NaN at %d is %v", at, got)
			}
			d.RMSNorm(y.host, lse.host, x.host, y.host, 1e-5)
			if got := download(t, d, lse.host)[0]; got == got {
				t.Fatalf("RMSNorm with NaN at %d has rstd %v", at, got)
			}
			if sum, err := d.SquareSum(x.host); err != nil || sum == sum {
				t.Fatalf("SquareSum with NaN at %d is %v, %v", at, sum, err)
			}
		}
		h := gpu.Heads{H: 1, G: 1, D: 16}
		q, k, v, out, lse := p.random(16, 1), p.random(16, 1), p.random(16, 1), p.random(16, 1), p.random(1, 1)
		p.host.Upload(k.host, []float32{nan()})
		d.Attend(gpu.Attention{Heads: h, Scale: 1, Out: out.host, LSE: lse.host, Q: q.host, K: k.host, V: v.host, Starts: p.ints(0).host})
		if got := download(t, d, out.host)[0]; got == got {
			t.Fatalf("attention to a key with NaN is %v", got)
		}
	})
}
