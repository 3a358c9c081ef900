package cuda_test

import (
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/devicetest"
)

// Many rows of a sequence, which do not split their keys over blocks, have the bits of
// training, and so of few rows.
func TestAttendPagedManyRows(t *testing.T) {
	t.Parallel()
	for _, products := range []gpu.DType{gpu.F32, gpu.BF16} {
		p := devicetest.NewPair(t, open(t, cuda.Options{Products: products}))
		for _, width := range []int{24, 40, 100} {
			manyRows(p, gpu.Heads{H: 4, G: 2, D: width})
		}
	}
}

func manyRows(p *devicetest.Pair, h gpu.Heads) {
	const tokens, pages = 261, 17
	d := p.Device
	positions, table, slots := make([]int32, tokens), make([]int32, pages), make([]int32, tokens)
	for i := range table {
		table[i] = int32(pages - 1 - i)
	}
	for i := range positions {
		positions[i] = int32(i)
		slots[i] = table[i/gpu.PageSize]*gpu.PageSize + int32(i%gpu.PageSize)
	}
	q, k, v := p.Random(tokens*h.H*h.D, 1), p.Random(tokens*h.G*h.D, 1), p.Random(tokens*h.G*h.D, 1)
	out, lse, paged := p.Random(q.Dev.Len, 1), p.Random(tokens*h.H, 1), p.Random(q.Dev.Len, 1)
	one := p.Ints(make([]int32, tokens)...)
	d.Attend(gpu.Attention{Heads: h, Scale: 0.3, Out: out.Dev, LSE: lse.Dev, Q: q.Dev, K: k.Dev, V: v.Dev, Starts: one.Dev})
	keys, values := p.Alloc(gpu.F32, pages*gpu.PageSize*h.G*h.D), p.Alloc(gpu.F32, pages*gpu.PageSize*h.G*h.D)
	d.StoreKV(gpu.KVRows{Heads: h, K: keys.Dev, V: values.Dev, NewK: k.Dev, NewV: v.Dev, Slots: p.Ints(slots...).Dev})
	d.AttendPaged(gpu.PagedAttention{
		Heads: h, Scale: 0.3, Out: paged.Dev, Q: q.Dev, K: keys.Dev, V: values.Dev, Tables: p.Ints(table...).Dev, P: pages,
		Sequences: one.Dev, Positions: p.Ints(positions...).Dev,
	})
	if !slices.Equal(p.Download(paged.Dev), p.Download(out.Dev)) {
		p.T.Errorf("heads of width %d: rows over the arena differ from training's", h.D)
	}
}
