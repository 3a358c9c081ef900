package reference

import (
	"math"

	"understudy/gpu"
)

// keysFunc gives where in the keys and values, counted in (G,D) slots, the
// position i of a row's sequence lies.
type keysFunc func(i int) int

// Attend is causal attention within packed sequences.
func (d *Device) Attend(a gpu.Attention) {
	starts, asked := ints(a.Starts), ints(a.Asked)
	for t, start := range starts {
		if asked != nil && asked[t] == 0 {
			continue
		}
		at := func(i int) int { return int(start) + i }
		lse := d.attendRow(a, t, t-int(start)+1, at)
		copy(floats(a.LSE)[t*a.H:], lse)
	}
}

// StoreKV lays the arena out as (S,G,D).
func (d *Device) StoreKV(s gpu.KVRows) {
	d.Scatter(s.K, s.NewK, s.Slots)
	d.Scatter(s.V, s.NewV, s.Slots)
}

// AttendPaged is causal attention over the arena.
func (d *Device) AttendPaged(p gpu.PagedAttention) {
	a := gpu.Attention{Heads: p.Heads, Scale: p.Scale, Out: p.Out, Q: p.Q, K: p.K, V: p.V}
	tables, positions := ints(p.Tables), ints(p.Positions)
	for r, s := range ints(p.Sequences) {
		pages := tables[int(s)*p.P : (int(s)+1)*p.P]
		at := func(i int) int { return int(pages[i/gpu.PageSize])*gpu.PageSize + i%gpu.PageSize }
		d.attendRow(a, r, int(positions[r])+1, at)
	}
}

// attendRow lets row r attend to the first n positions and gives its LSE (H).
func (d *Device) attendRow(a gpu.Attention, r, n int, at keysFunc) []float64 {
	q, v, out := floats(a.Q), floats(a.V), floats(a.Out)
	lse := make([]float64, a.H)
	for h := range a.H {
		g, head := h/(a.H/a.G), (r*a.H+h)*a.D
		scores := d.scores(a, q[head:head+a.D], g, n, at)
		lse[h] = d.stored(logSumExp(scores, 1))
		for i := range a.D {
			sum := 0.0
			for j, s := range scores {
				sum += math.Exp(s-lse[h]) * v[(at(j)*a.G+g)*a.D+i]
			}
			out[head+i] = d.stored(sum)
		}
	}
	return lse
}

// scores is Scale·q·k of n positions.
func (d *Device) scores(a gpu.Attention, q []float64, g, n int, at keysFunc) []float64 {
	k, scores := floats(a.K), make([]float64, n)
	for j := range scores {
		key := k[(at(j)*a.G+g)*a.D:]
		for i, v := range q {
			scores[j] += v * key[i]
		}
		scores[j] *= float64(a.Scale)
	}
	return scores
}

// AttendBackward is the gradient of Attend, row by row: with p the
// probabilities of a row and dp = dout·v of each key,
//
//	dv += p·dout;  ds = p·(dp − Σ p·dp)·Scale;  dq += ds·k;  dk += ds·q
func (d *Device) AttendBackward(a gpu.AttentionGrad) {
	k, v, q := floats(a.K), floats(a.V), floats(a.Q)
	dq, dk, dv := make([]float64, a.DQ.Len), make([]float64, a.DK.Len), make([]float64, a.DV.Len)
	asked := ints(a.Asked)
	for t, start := range ints(a.Starts) {
		if asked != nil && asked[t] == 0 {
			continue
		}
		n, at := t-int(start)+1, func(i int) int { return int(start) + i }
		for h := range a.H {
			g, head := h/(a.H/a.G), (t*a.H+h)*a.D
			query, dout := q[head:head+a.D], floats(a.DOut)[head:head+a.D]
			scores := d.scores(a.Attention, query, g, n, at)
			lse := logSumExp(scores, 1)
			dp, mean := make([]float64, n), 0.0
			for j, s := range scores {
				key := (at(j)*a.G + g) * a.D
				for i := range a.D {
					dp[j] += dout[i] * v[key+i]
					dv[key+i] += math.Exp(s-lse) * dout[i]
				}
				mean += math.Exp(s-lse) * dp[j]
			}
			for j, s := range scores {
				key := (at(j)*a.G + g) * a.D
				ds := math.Exp(s-lse) * (dp[j] - mean) * float64(a.Scale)
				for i := range a.D {
					dq[head+i] += ds * k[key+i]
					dk[key+i] += ds * query[i]
				}
			}
		}
	}
	d.store(a.DQ, dq)
	d.store(a.DK, dk)
	d.store(a.DV, dv)
}

func (d *Device) store(to gpu.Buffer, from []float64) {
	dst := floats(to)
	for i, v := range from {
		dst[i] = d.stored(v)
	}
}
