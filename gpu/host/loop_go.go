package host

import (
	"math"
	"unsafe"
)

// goLoops is plain Go. gen/loops.go has the formulas.
func goLoops() loops {
	return loops{
		add: func(n int, y, a, b *float32) {
			to, right := from(y, n), from(b, n)
			for i, v := range from(a, n) {
				to[i] = v + right[i]
			}
		},
		addScaled: func(n int, y, x *float32, s float32) {
			to := from(y, n)
			for i, v := range from(x, n) {
				to[i] += float32(s * v)
			}
		},
		scale: func(n int, y, x *float32, s float32) {
			to := from(y, n)
			for i, v := range from(x, n) {
				to[i] = s * v
			}
		},
		scaleBy: func(n int, y, x, w *float32, s float32) {
			to, by := from(y, n), from(w, n)
			for i, v := range from(x, n) {
				to[i] = v * s * by[i]
			}
		},
		normBackward: func(n int, dx, dy, w, x *float32, s, c float32) {
			to, grad, gain := from(dx, n), from(dy, n), from(w, n)
			for i, v := range from(x, n) {
				to[i] += float32(s*grad[i]*gain[i]) - float32(c*v)
			}
		},
		addProduct: func(n int, y, a, b *float32, s float32) {
			to, left := from(y, n), from(a, n)
			for i, v := range from(b, n) {
				to[i] += float32(s * left[i] * v)
			}
		},
		rotate: func(n int, a, b, cos, sin *float32, sign float32) {
			left, right, c, s := from(a, n), from(b, n), from(cos, n), from(sin, n)
			for i, x := range left {
				y, s := right[i], sign*s[i]
				left[i], right[i] = float32(x*c[i])-float32(y*s), float32(y*c[i])+float32(x*s)
			}
		},
		swiGLU:         goSwiGLU,
		swiGLUBackward: goSwiGLUBackward,
		logitGrad:      goLogitGrad,
		scoreGrad:      goScoreGrad,
		adamW:          goAdamW,
		dot: func(n int, x, y *float32) (sum float32) {
			right := from(y, n)
			for i, v := range from(x, n) {
				sum += float32(v * right[i])
			}
			return sum
		},
		dot3: func(n int, x, y, z *float32) (sum float32) {
			second, third := from(y, n), from(z, n)
			for i, v := range from(x, n) {
				sum += float32(v * second[i] * third[i])
			}
			return sum
		},
		max: func(n int, x *float32) float32 {
			top := float32(math.Inf(-1))
			for _, v := range from(x, n) {
				top = max(top, v)
			}
			return top
		},
		expSum:    goExpSum,
		softmax:   goSoftmax,
		transpose: goTranspose,
		fetch:     func(int, *float32) {},
		squares: func(n int, x *float32) (sum float64) {
			for _, v := range from(x, n) {
				sum += float64(v) * float64(v)
			}
			return sum
		},
		packTile: func(rows int, src *float32, lds int, dst *float32, m int) {
			to := from(dst, rows*m)
			for i := range rows {
				copy(to[i*m:(i+1)*m], from((*float32)(unsafe.Add(unsafe.Pointer(src), i*lds)), m))
			}
		},
		gather: func(rows int, src *float32, lds int, dst *float32) {
			for i := range rows {
				*row16(unsafe.Add(unsafe.Pointer(dst), 4*chunk*i)) = *row16(unsafe.Add(unsafe.Pointer(src), lds*i))
			}
		},
	}
}

// from is the n elements at p.
func from(p *float32, n int) []float32 { return unsafe.Slice(p, n) }

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

func goSwiGLU(n int, h, gate, up *float32) {
	to, u := from(h, n), from(up, n)
	for i, x := range from(gate, n) {
		to[i] = x / (1 + exp(-x)) * u[i]
	}
}

func goSwiGLUBackward(n int, dgate, dup, dh, gate, up *float32) {
	dg, du, grad, u := from(dgate, n), from(dup, n), from(dh, n), from(up, n)
	for i, x := range from(gate, n) {
		s, y, v := 1/(1+exp(-x)), grad[i], u[i]
		dg[i], du[i] = y*v*s*(1+float32(x*(1-s))), y*x*s
	}
}

func goLogitGrad(n int, z *float32, scale, lse, c0, c1 float32) {
	row := from(z, n)
	for i, x := range row {
		l := max(float32(scale*x)-lse, -1000)
		row[i] = exp(l) * (c0 + float32(c1*l))
	}
}

func goScoreGrad(n int, s, dp *float32, scale, lse, delta float32) {
	scores, grads := from(s, n), from(dp, n)
	for i, x := range scores {
		p := exp(float32(scale*x) - lse)
		scores[i], grads[i] = p, p*(grads[i]-delta)*scale
	}
}

func goAdamW(n int, p, g, m, v *float32, gradScale, beta1, rest1, beta2, rest2, keep, rate, unbias2, eps float32) {
	param, first, second := from(p, n), from(m, n), from(v, n)
	for i, grad := range from(g, n) {
		grad *= gradScale
		first[i] = float32(beta1*first[i]) + float32(rest1*grad)
		second[i] = float32(beta2*second[i]) + float32(rest2*grad*grad)
		root := float32(math.Sqrt(float64(second[i] * unbias2)))
		param[i] = float32(keep*param[i]) - float32(rate*(first[i]/(root+eps)))
	}
}

func goExpSum(n int, x *float32, scale, top float32) (sum, moment float32) {
	for _, v := range from(x, n) {
		t := max(float32(scale*v)-top, -1000)
		e := exp(t)
		sum += e
		moment += float32(t * e)
	}
	return sum, moment
}

func goSoftmax(rows int, s *float32, valid *int32, state, acc *float32, d int, scale float32) {
	for i, n := range unsafe.Slice(valid, rows) {
		scores, run, sums := from(s, rows*chunk)[i*chunk:][:chunk], from(state, 2*rows)[2*i:], from(acc, rows*d)[i*d:][:d]
		n = min(max(n, 0), chunk)
		clear(scores[n:])
		if n == 0 {
			continue
		}
		top := run[0]
		for j := range scores[:n] {
			scores[j] *= scale
			top = max(top, scores[j])
		}
		total := float32(0)
		for j, x := range scores[:n] {
			scores[j] = exp(x - top)
			total += scores[j]
		}
		before := exp(run[0] - top)
		run[0], run[1] = top, float32(run[1]*before)+total
		for j := range sums {
			sums[j] *= before
		}
	}
}

func goTranspose(blocks int, src *float32, lds int, dst *float32, ldd int) {
	for p := range 8 * blocks { // row after row: see turnTile
		for i := range 8 {
			x := (*float32)(unsafe.Add(unsafe.Pointer(src), i*lds+4*p))
			*(*float32)(unsafe.Add(unsafe.Pointer(dst), p*ldd+4*i)) = *x
		}
	}
}
