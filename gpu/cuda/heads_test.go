package cuda_test

import (
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/devicetest"
)

// What queries and keys go through before attention has the same bits as one kernel and as five, in training and on
// the way into the arena.
func TestHeadsAreOne(t *testing.T) {
	t.Parallel()
	for _, products := range []gpu.DType{gpu.F32, gpu.BF16} {
		for _, h := range []gpu.Heads{{H: 4, G: 2, D: 6}, {H: 3, G: 1, D: 128}, {H: 2, G: 2, D: 70}} {
			for _, stored := range []bool{true, false} {
				d := open(t, cuda.Options{Products: products})
				one, commands := preparedHeads(t, d, h, stored, func() {})
				kind := map[gpu.DType]string{gpu.F32: "f32", gpu.BF16: "bf16"}[products]
				if want := []string{"heads_" + kind}; !slices.Equal(commands, want) {
					t.Errorf("%v, stored %v: launched are %v, want %v", h, stored, commands, want)
				}
				apart, _ := preparedHeads(t, d, h, stored, func() {
					if err := d.Sync(); err != nil {
						t.Fatal(err)
					}
				})
				if !slices.Equal(one, apart) {
					t.Errorf("%v, stored %v: other bits as one", h, stored)
				}
			}
		}
	}
}

// preparedHeads gives all that is written of five rows, and what waits to be launched for it; between is called after
// each operation.
func preparedHeads(t *testing.T, d *cuda.Device, h gpu.Heads, stored bool, between func()) (all []float32, commands []string) {
	t.Helper()
	const rows = 5
	p := devicetest.NewPair(t, d)
	q, k, v := p.Activations(rows*h.H*h.D, 2).Dev, p.Activations(rows*h.G*h.D, 2).Dev, p.Activations(rows*h.G*h.D, 2).Dev
	qr, kr, rstdQ, rstdK := p.Activations(q.Len, 1).Dev, p.Activations(k.Len, 1).Dev, p.Random(rows*h.H, 1).Dev, p.Random(rows*h.G, 1).Dev
	gainQ, gainK, table := p.Random(h.D, 1).Dev, p.Random(h.D, 1).Dev, p.Random(9*h.D, 1).Dev
	keys, values := p.Arena(0.5, 32*h.G*h.D).Dev, p.Arena(0.25, 32*h.G*h.D).Dev
	positions, slots := p.Ints(8, 0, 3, 3, 1).Dev, p.Ints(31, 2, 16, 15, 7).Dev
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, operation := range []func(){
		func() { d.RMSNorm(qr, rstdQ, q, gainQ, 1e-6) },
		func() { d.RMSNorm(kr, rstdK, k, gainK, 1e-6) },
		func() { d.RoPE(qr, table, positions, h.D, false) },
		func() { d.RoPE(kr, table, positions, h.D, false) },
		func() {
			if stored {
				d.StoreKV(gpu.KVRows{Heads: h, K: keys, V: values, NewK: kr, NewV: v, Slots: slots})
			}
		},
	} {
		operation()
		between()
	}
	commands = d.Waiting()
	for _, b := range []gpu.Buffer{qr, kr, rstdQ, rstdK, keys, values} {
		all = append(all, p.Download(b)...)
	}
	return all, commands
}

// Heads that are not the same rows', turned by another table or back, or stored from elsewhere, stay apart.
func TestHeadsStayApart(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{Products: gpu.BF16})
	p := devicetest.NewPair(t, d)
	h := gpu.Heads{H: 2, G: 1, D: 8}
	q, k, x := p.Activations(3*16, 1).Dev, p.Activations(3*8, 1).Dev, p.Activations(3*8, 1).Dev
	table, other, gain, rstd := p.Random(9*8, 1).Dev, p.Random(9*8, 1).Dev, p.Random(8, 1).Dev, p.Random(6, 1).Dev
	positions, keys := p.Ints(1, 2, 3).Dev, p.Arena(0, 16*8).Dev
	norms := func(eps float32) {
		d.RMSNorm(q, rstd, q, gain, 1e-6)
		d.RMSNorm(k, rstd.Slice(0, 3), k, gain, eps)
	}
	const norm, rope, store = "rms_norm_bf16", "rope_bf16", "store_kv_bf16"
	for name, c := range map[string]struct {
		run  func()
		want []string
	}{
		"another table": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, other, positions, 8, false)
		}, []string{norm, norm, rope, rope}},
		"back": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, table, positions, 8, true)
		}, []string{norm, norm, rope, rope}},
		"another eps": {func() {
			norms(1e-5)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, table, positions, 8, false)
		}, []string{norm, norm, rope, rope}},
		"other keys": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(x, table, positions, 8, false)
		}, []string{norm, norm, rope, rope}},
		"stored from elsewhere": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, table, positions, 8, false)
			d.StoreKV(gpu.KVRows{Heads: h, K: keys, V: keys, NewK: x, NewV: k, Slots: positions})
		}, []string{"heads_bf16", store}},
		"some rows stored": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, table, positions, 8, false)
			d.StoreKV(gpu.KVRows{Heads: h, K: keys, V: keys, NewK: k.Slice(0, 8), NewV: x.Slice(0, 8), Slots: positions.Slice(0, 1)})
		}, []string{"heads_bf16", store}},
	} {
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		c.run()
		if got := d.Waiting(); !slices.Equal(got, c.want) {
			t.Errorf("%s: launched are %v, want %v", name, got, c.want)
		}
	}
}

// Up to three weights multiply the same few rows in one launch, with the bits that each has alone, and what is
// written twice is written in turn.
func TestFewRowsOfThreeWeights(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{1, 9, 20} {
		for _, mode := range []gpu.Mode{gpu.Exact, gpu.Fast} {
			d := open(t, cuda.Options{Mode: mode, Products: gpu.BF16})
			p := devicetest.NewPair(t, d)
			const k = 300
			x, sizes := p.Activations(rows*k, 1).Dev, []int{40, 7, 16, 5}
			var y []gpu.Buffer
			var w []gpu.Weight
			for _, n := range sizes {
				y, w = append(y, p.Activations(rows*n, 1).Dev), append(w, d.NewWeight(p.Stored(gpu.BF16, n*k).Dev, n, k))
			}
			results := func(between func() error) (all []float32, launched int) {
				for i := range w {
					d.MatMul(y[i], x, w[i])
					if err := between(); err != nil {
						t.Fatal(err)
					}
				}
				launched = len(d.Waiting())
				for _, b := range y {
					all = append(all, p.Download(b)...)
				}
				return all, launched
			}
			one, launched := results(func() error { return nil })
			apart, _ := results(d.Sync)
			if !slices.Equal(one, apart) || launched != 2 {
				t.Errorf("%d rows: four weights in %d launches, want 2; equal bits: %v", rows, launched, slices.Equal(one, apart))
			}
			d.MatMul(y[0], x, w[0])
			d.MatMul(y[0].Slice(0, rows*sizes[1]), x, w[1])
			if n := len(d.Waiting()); n != 2 {
				t.Errorf("two products into the same memory are %d launches", n)
			}
			if got := p.Download(y[0]); !slices.Equal(got[:rows*sizes[1]], apart[rows*sizes[0]:rows*(sizes[0]+sizes[1])]) {
				t.Error("of two products into the same memory the second is not the one that stays")
			}
		}
	}
}
