package cuda_test

import (
	"slices"
	"strings"
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
	q, k, v := p.Activations(tokens*h.H*h.D, 1), p.Activations(tokens*h.G*h.D, 1), p.Activations(tokens*h.G*h.D, 1)
	out, lse, paged := p.Activations(q.Dev.Len, 1), p.Random(tokens*h.H, 1), p.Activations(q.Dev.Len, 1)
	one := p.Ints(make([]int32, tokens)...)
	d.Attend(gpu.Attention{Heads: h, Scale: 0.3, Out: out.Dev, LSE: lse.Dev, Q: q.Dev, K: k.Dev, V: v.Dev, Starts: one.Dev})
	keys, values := p.Arena(0, pages*gpu.PageSize*h.G*h.D), p.Arena(0, pages*gpu.PageSize*h.G*h.D)
	d.StoreKV(gpu.KVRows{Heads: h, K: keys.Dev, V: values.Dev, NewK: k.Dev, NewV: v.Dev, Slots: p.Ints(slots...).Dev})
	d.AttendPaged(gpu.PagedAttention{
		Heads: h, Scale: 0.3, Out: paged.Dev, Q: q.Dev, K: keys.Dev, V: values.Dev, Tables: p.Ints(table...).Dev, P: pages,
		Sequences: one.Dev, Positions: p.Ints(positions...).Dev,
	})
	if !slices.Equal(p.Download(paged.Dev), p.Download(out.Dev)) {
		p.T.Errorf("heads of width %d: rows over the arena differ from training's", h.D)
	}
}

// Keys, values and activations that are rounded to BF16 take half the memory, and buffers that lie otherwise are
// refused.
func TestHalfTheSize(t *testing.T) {
	t.Parallel()
	const pages = 30
	runner := func(products gpu.DType) (*cuda.Device, *gpu.Model, *gpu.Runner) {
		d := open(t, cuda.Options{Products: products})
		m, err := gpu.NewRandom(d, small(), 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.NewRunner(gpu.RunnerConfig{Pages: pages, Rows: 4, Wanted: 4, Sequences: 2, Context: 16})
		if err != nil {
			t.Fatal(err)
		}
		return d, m, r
	}
	_, m, whole := runner(gpu.F32)
	d, rounded, half := runner(gpu.BF16)
	config := gpu.RunnerConfig{Pages: pages, Rows: 4, Wanted: 4, Sequences: 2, Context: 16, Activations: gpu.BF16}
	activations := small().RolloutBytes(gpu.RunnerConfig{Pages: pages, Rows: 4, Wanted: 4, Sequences: 2, Context: 16}) - small().RolloutBytes(config)
	saved := (pages+1)*rounded.PageBytes() + activations // and the page of padding
	if 2*rounded.PageBytes() != m.PageBytes() || whole.Bytes()-half.Bytes() != saved || half.KV != gpu.BF16 || half.Activations != gpu.BF16 || activations <= 0 {
		t.Errorf("rounded, a page takes %d of %d bytes and the rollouts %d of %d, want half of each page", rounded.PageBytes(), m.PageBytes(), half.Bytes(), whole.Bytes())
	}
	p := devicetest.NewPair(t, d)
	k, x, slots, h := p.Random(16*2*6, 1).Dev, p.Activations(16*2*6, 1).Dev, p.Ints(0).Dev, small().Heads
	const single, half16 = ": a buffer of float32, where bfloat16 is wanted", ": a buffer of bfloat16, where float32 is wanted"
	loss := gpu.TokenLoss{Logits: x, Scale: k, LSE: k.Slice(0, 1)}
	for want, call := range map[string]func(){
		"StoreKV into the arena" + single: func() {
			d.StoreKV(gpu.KVRows{Heads: h, K: k, V: k, NewK: x.Slice(0, 12), NewV: x.Slice(0, 12), Slots: slots})
		},
		"StoreKV" + single: func() {
			d.StoreKV(gpu.KVRows{Heads: h, K: x, V: x, NewK: k.Slice(0, 12), NewV: k.Slice(0, 12), Slots: slots})
		},
		"AttendPaged of the arena" + single: func() {
			d.AttendPaged(gpu.PagedAttention{Heads: h, Out: x, Q: x, K: k, V: x, Tables: slots, P: 1, Sequences: slots, Positions: slots})
		},
		"AttendPaged" + single: func() {
			d.AttendPaged(gpu.PagedAttention{Heads: h, Out: k, Q: k, K: x, V: x, Tables: slots, P: 1, Sequences: slots, Positions: slots})
		},
		"Attend" + single: func() { d.Attend(gpu.Attention{Heads: h, Out: x, LSE: k, Q: x, K: k, V: x, Starts: slots}) },
		"AttendBackward" + single: func() {
			a := gpu.Attention{Heads: h, Out: x, LSE: k, Q: x, K: x, V: x, Starts: slots}
			d.AttendBackward(gpu.AttentionGrad{Attention: a, DOut: k, DQ: x, DK: x, DV: x})
		},
		"RMSNorm" + single:          func() { d.RMSNorm(k, k.Slice(0, 1), x, k, 1) },
		"RMSNorm" + half16:          func() { d.RMSNorm(x, k.Slice(0, 1), x, x, 1) },
		"RoPE" + single:             func() { d.RoPE(k, k, slots, 6, false) },
		"SwiGLU" + single:           func() { d.SwiGLU(x, x, k) },
		"SwiGLUBackward" + single:   func() { d.SwiGLUBackward(x, x, k, x, x) },
		"RMSNormBackward" + half16:  func() { d.RMSNormBackward(k, gpu.Buffer{}, x, x, k, k.Slice(0, 1)) },
		"Add" + half16:              func() { d.Add(k, k, x) },
		"LogProbs" + half16:         func() { d.LogProbs(loss) },
		"LogProbsBackward" + half16: func() { d.LogProbsBackward(loss, k, gpu.Buffer{}) },
		"MatMulBackW" + half16:      func() { d.MatMulBackW(x, x, x, 1) },
		"Scatter" + half16:          func() { d.Scatter(k, x, slots) },
		"EmbedBackward" + half16:    func() { d.EmbedBackward(k, x, slots) },
		"Upload: a buffer of float16, where float32 is wanted":   func() { d.Upload(p.Stored(gpu.F16, 12).Dev, make([]float32, 12)) },
		"UploadInts: a buffer of float32, where int32 is wanted": func() { d.UploadInts(k, []int32{1}) },
		"MatMul: a buffer of int32":                              func() { d.MatMul(slots, x.Slice(0, 12), d.NewWeight(k.Slice(0, 12), 1, 12)) },
	} {
		call()
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
