package devicetest

import "understudy/gpu"

// headsToAttention is what queries, keys and values go through in a decode step, which a device may do in one piece: the
// norms of a model that has them, the turns, the way into the arena, and attention to what came there.
func headsToAttention(p *Pair) {
	for _, h := range []gpu.Heads{{H: 1, G: 1, D: 2}, {H: 4, G: 2, D: 6}, {H: 2, G: 2, D: 70}, {H: 3, G: 1, D: 128}} {
		for _, normed := range []bool{true, false} {
			decodeHeads(p, h, normed)
		}
	}
}

// decodeHeads does it for the rows 0..2 of one sequence and 0..1 of another.
func decodeHeads(p *Pair, h gpu.Heads, normed bool) {
	const rows = 5
	q, k, v := p.Activations(rows*h.H*h.D, 1), p.Activations(rows*h.G*h.D, 1), p.Activations(rows*h.G*h.D, 1)
	qr, kr := q, k
	if normed {
		qr, kr = p.Activations(rows*h.H*h.D, 1), p.Activations(rows*h.G*h.D, 1)
	}
	gainQ, gainK, rstdQ, rstdK := p.Random(h.D, 1), p.Random(h.D, 1), p.Random(rows*h.H, 1), p.Random(rows*h.G, 1)
	table, out := p.Random(3*h.D, 1), p.Activations(rows*h.H*h.D, 1)
	keys, values := p.Arena(nan(), 2*gpu.PageSize*h.G*h.D), p.Arena(nan(), 2*gpu.PageSize*h.G*h.D)
	positions, slots := p.Ints(0, 1, 2, 0, 1), p.Ints(16, 17, 18, 0, 1)
	sequences, tables := p.Ints(0, 0, 0, 1, 1), p.Ints(1, 0)
	p.Both(func(d gpu.Device, of func(Buffers) gpu.Buffer) {
		if normed {
			d.RMSNorm(of(qr), of(rstdQ), of(q), of(gainQ), 1e-5)
			d.RMSNorm(of(kr), of(rstdK), of(k), of(gainK), 1e-5)
		}
		d.RoPE(of(qr), of(table), of(positions), h.D, false)
		d.RoPE(of(kr), of(table), of(positions), h.D, false)
		d.StoreKV(gpu.KVRows{Heads: h, K: of(keys), V: of(values), NewK: of(kr), NewV: of(v), Slots: of(slots)})
		d.AttendPaged(gpu.PagedAttention{
			Heads: h, Scale: 0.05, Out: of(out), Q: of(qr), K: of(keys), V: of(values),
			Tables: of(tables), P: 1, Sequences: of(sequences), Positions: of(positions),
		})
	})
	if normed {
		p.Equal("rstd of queries", rstdQ, 2e-6)
		p.Equal("rstd of keys", rstdK, 2e-6)
	}
	// Where activations are BF16, the norm is rounded and then its turn, as weights and sums of attention are.
	p.Attended("queries", qr, 1e-5)
	p.Attended("keys", kr, 1e-5)
	p.Attended("what rows gather", out, 1e-5)
}
