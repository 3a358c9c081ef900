package cuda_test

import (
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/devicetest"
)

// What queries and keys go through before attention has the same bits as one kernel and one by one, with norms and
// without, in training and on the way into the arena.
func TestHeadsAreOne(t *testing.T) {
	t.Parallel()
	for _, products := range []gpu.DType{gpu.F32, gpu.BF16} {
		for _, h := range []gpu.Heads{{H: 4, G: 2, D: 6}, {H: 3, G: 1, D: 128}, {H: 2, G: 2, D: 70}, {H: 1, G: 1, D: 2}, {H: 2, G: 1, D: 256}} {
			for way := range 4 {
				normed, stored := way/2 == 1, way%2 == 1
				d := open(t, cuda.Options{Products: products})
				one, commands := preparedHeads(t, d, h, normed, stored, func() {})
				kind := map[gpu.DType]string{gpu.F32: "f32", gpu.BF16: "bf16"}[products]
				if want := []string{"heads_" + kind}; !slices.Equal(commands, want) {
					t.Errorf("%v, normed %v, stored %v: launched are %v, want %v", h, normed, stored, commands, want)
				}
				apart, _ := preparedHeads(t, d, h, normed, stored, func() {
					if err := d.Sync(); err != nil {
						t.Fatal(err)
					}
				})
				if !slices.Equal(one, apart) {
					t.Errorf("%v, normed %v, stored %v: other bits as one", h, normed, stored)
				}
			}
		}
	}
}

// preparedHeads gives all that is written of five rows, and what waits to be launched for it; between is called after
// each operation.
func preparedHeads(t *testing.T, d *cuda.Device, h gpu.Heads, normed, stored bool, between func()) (all []float32, commands []string) {
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
	if normed {
		d.RMSNorm(qr, rstdQ, q, gainQ, 1e-6)
		between()
		d.RMSNorm(kr, rstdK, k, gainK, 1e-6)
		between()
	}
	d.RoPE(qr, table, positions, h.D, false)
	between()
	d.RoPE(kr, table, positions, h.D, false)
	between()
	if stored {
		d.StoreKV(gpu.KVRows{Heads: h, K: keys, V: values, NewK: kr, NewV: v, Slots: slots})
		between()
	}
	commands = d.Waiting()
	for _, b := range []gpu.Buffer{qr, kr, rstdQ, rstdK, keys, values} {
		all = append(all, p.Download(b)...)
	}
	return all, commands
}

// Heads that are not the same rows', turned by another table or back, or stored from elsewhere, stay apart; norms that
// are not those of what is turned run before its turns, which are one.
func TestHeadsStayApart(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{Products: gpu.BF16})
	p := devicetest.NewPair(t, d)
	h := gpu.Heads{H: 2, G: 1, D: 8}
	q, k, x := p.Activations(3*16, 1).Dev, p.Activations(3*8, 1).Dev, p.Activations(3*8, 1).Dev
	table, other, gain, rstd := p.Random(9*8, 1).Dev, p.Random(9*8, 1).Dev, p.Random(8, 1).Dev, p.Random(18, 1).Dev
	positions, others, keys := p.Ints(1, 2, 3).Dev, p.Ints(3, 2, 1).Dev, p.Arena(0, 16*8).Dev
	more, four := p.Activations(4*8, 1).Dev, p.Ints(4, 5, 6, 7).Dev
	queries, wide, wideGain, wideTable := p.Activations(3*16, 1).Dev, p.Activations(2*258, 1).Dev, p.Random(258, 1).Dev, p.Random(9*258, 1).Dev
	norm1 := func(x gpu.Buffer, rows, width, rstdAt int, eps float32) {
		d.RMSNorm(x, rstd.Slice(rstdAt, rstdAt+rows), x, wideGain.Slice(0, width), eps)
	}
	norms := func(eps float32) {
		d.RMSNorm(q, rstd.Slice(0, 6), q, gain, 1e-6)
		d.RMSNorm(k, rstd.Slice(6, 9), k, gain, eps)
	}
	turns := func(x, y gpu.Buffer, rows, width int) {
		d.RoPE(x, table, positions.Slice(0, rows), width, false)
		d.RoPE(y, table, positions.Slice(0, rows), width, false)
	}
	const norm, rope, heads, store = "rms_norm_bf16", "rope_bf16", "heads_bf16", "store_kv_bf16"
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
		}, []string{norm, norm, heads}},
		"queries turned back": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, true)
			d.RoPE(k, table, positions, 8, false)
		}, []string{norm, norm, rope, rope}},
		"other positions": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, table, others, 8, false)
		}, []string{norm, norm, rope, rope}},
		"other queries": {func() {
			norms(1e-6)
			turns(queries, k, 3, 8)
		}, []string{norm, norm, heads}},
		"more queries normalised than turned": {func() {
			norm1(q, 6, 8, 0, 1e-6)
			norm1(k.Slice(0, 16), 2, 8, 6, 1e-6)
			turns(q.Slice(0, 32), k.Slice(0, 16), 2, 8)
		}, []string{norm, norm, heads}},
		"more keys normalised than turned": {func() {
			norm1(q.Slice(0, 32), 4, 8, 0, 1e-6)
			norm1(k, 3, 8, 6, 1e-6)
			turns(q.Slice(0, 32), k.Slice(0, 16), 2, 8)
		}, []string{norm, norm, heads}},
		"narrower queries normalised": {func() {
			norm1(q.Slice(0, 24), 6, 4, 0, 1e-6)
			norm1(k, 3, 8, 6, 1e-6)
			turns(q, k, 3, 8)
		}, []string{norm, norm, heads}},
		"narrower keys normalised": {func() {
			norm1(q, 6, 8, 0, 1e-6)
			norm1(k.Slice(0, 12), 3, 4, 6, 1e-6)
			turns(q, k, 3, 8)
		}, []string{norm, norm, heads}},
		"of an odd width": {func() {
			norm1(q.Slice(0, 42), 6, 7, 0, 1e-6)
			norm1(k.Slice(0, 21), 3, 7, 6, 1e-6)
			turns(q.Slice(0, 42), k.Slice(0, 21), 3, 7)
		}, []string{norm, norm, rope, rope}},
		"too wide": {func() {
			norm1(wide.Slice(0, 258), 1, 258, 0, 1e-6)
			norm1(wide.Slice(258, 516), 1, 258, 6, 1e-6)
			d.RoPE(wide.Slice(0, 258), wideTable, positions.Slice(0, 1), 258, false)
			d.RoPE(wide.Slice(258, 516), wideTable, positions.Slice(0, 1), 258, false)
		}, []string{norm, norm, rope, rope}},
		"stored twice": {func() {
			norms(1e-6)
			turns(q, k, 3, 8)
			for range 2 {
				d.StoreKV(gpu.KVRows{Heads: h, K: keys.Slice(0, 64), V: keys.Slice(64, 128), NewK: k, NewV: x, Slots: positions})
			}
		}, []string{heads, store}},
		"stored again, with as many blocks as it has now": {func() {
			norm1(q, 6, 8, 0, 1e-6)
			norm1(more.Slice(0, 24), 3, 8, 6, 1e-6)
			turns(q, more.Slice(0, 24), 3, 8)
			d.StoreKV(gpu.KVRows{Heads: h, K: keys.Slice(0, 64), V: keys.Slice(64, 128), NewK: more.Slice(0, 24), NewV: x, Slots: positions})
			d.StoreKV(gpu.KVRows{Heads: h, K: keys.Slice(0, 64), V: keys.Slice(64, 128), NewK: more, NewV: q.Slice(0, 32), Slots: four})
		}, []string{heads, store}},
		"stored as other heads": {func() {
			norms(1e-6)
			turns(q, k, 3, 8)
			d.StoreKV(gpu.KVRows{Heads: gpu.Heads{H: 1, G: 2, D: 4}, K: keys, V: keys, NewK: k, NewV: x, Slots: positions})
		}, []string{heads, store}},
		"other keys": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(x, table, positions, 8, false)
		}, []string{norm, norm, heads}},
		"stored from elsewhere": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, table, positions, 8, false)
			d.StoreKV(gpu.KVRows{Heads: h, K: keys, V: keys, NewK: x, NewV: k, Slots: positions})
		}, []string{heads, store}},
		"some rows stored": {func() {
			norms(1e-6)
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, table, positions, 8, false)
			d.StoreKV(gpu.KVRows{Heads: h, K: keys, V: keys, NewK: k.Slice(0, 8), NewV: x.Slice(0, 8), Slots: positions.Slice(0, 1)})
		}, []string{heads, store}},
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

// Turns without norms that are not the same rows', by the same table, of a decode batch, stay apart.
func TestTurnsStayApart(t *testing.T) {
	t.Parallel()
	const many = 512 + 1
	d := open(t, cuda.Options{Products: gpu.BF16})
	p := devicetest.NewPair(t, d)
	q, k, x := p.Activations(many*16, 1).Dev, p.Activations(many*8, 1).Dev, p.Activations(many*8, 1).Dev
	table, other, gain, rstd := p.Random(2*258, 1).Dev, p.Random(2*258, 1).Dev, p.Random(8, 1).Dev, p.Random(6, 1).Dev
	positions, others, arena := p.Ints(make([]int32, many)...).Dev, p.Ints(make([]int32, many)...).Dev, p.Arena(0, 32*8).Dev
	slots := p.Ints(1, 2, 3).Dev
	turn := func(x, table, positions gpu.Buffer, rows, heads, width int) {
		d.RoPE(x.Slice(0, rows*heads*width), table, positions.Slice(0, rows), width, false)
	}
	const norm, rope, heads, store = "rms_norm_bf16", "rope_bf16", "heads_bf16", "store_kv_bf16"
	for name, c := range map[string]struct {
		run  func()
		want []string
	}{
		"a decode batch": {func() {
			turn(q, table, positions, many-1, 2, 8)
			turn(k, table, positions, many-1, 1, 8)
		}, []string{heads}},
		"more rows than a decode batch": {func() {
			turn(q, table, positions, many, 2, 8)
			turn(k, table, positions, many, 1, 8)
		}, []string{rope, rope}},
		"another table": {func() {
			turn(q, table, positions, 3, 2, 8)
			turn(k, other, positions, 3, 1, 8)
		}, []string{rope, rope}},
		"other positions": {func() {
			turn(q, table, positions, 3, 2, 8)
			turn(k, table, others, 3, 1, 8)
		}, []string{rope, rope}},
		"other rows": {func() {
			turn(q, table, positions, 2, 2, 8)
			turn(k, table, positions, 3, 1, 8)
		}, []string{rope, rope}},
		"another width": {func() {
			turn(q, table, positions, 3, 2, 4)
			turn(k, table, positions, 3, 1, 8)
		}, []string{rope, rope}},
		"of an odd width": {func() {
			turn(q, table, positions, 3, 2, 7)
			turn(k, table, positions, 3, 1, 7)
		}, []string{rope, rope}},
		"too wide": {func() {
			turn(q, table, positions, 3, 2, 258)
			turn(k, table, positions, 3, 1, 258)
		}, []string{rope, rope}},
		"queries turned back": {func() {
			d.RoPE(q, table, positions, 8, true)
			d.RoPE(k, table, positions, 8, false)
		}, []string{rope, rope}},
		"keys turned back": {func() {
			d.RoPE(q, table, positions, 8, false)
			d.RoPE(k, table, positions, 8, true)
		}, []string{rope, rope}},
		"the same heads, turned twice": {func() {
			turn(k, table, positions, 3, 1, 8)
			turn(k, table, positions, 3, 1, 8)
		}, []string{rope, rope}},
		"a third time": {func() {
			turn(q, table, positions, 3, 2, 8)
			turn(k, table, positions, 3, 1, 8)
			turn(x, table, positions, 3, 1, 8)
		}, []string{heads, rope}},
		"a norm of queries alone": {func() {
			d.RMSNorm(q.Slice(0, 6*8), rstd, q.Slice(0, 6*8), gain, 1e-6)
			turn(q, table, positions, 3, 2, 8)
			turn(k, table, positions, 3, 1, 8)
		}, []string{norm, heads}},
		"keys normalised after the turn of queries": {func() {
			turn(q, table, positions, 3, 2, 8)
			d.RMSNorm(k.Slice(0, 3*8), rstd.Slice(0, 3), k.Slice(0, 3*8), gain, 1e-6)
			turn(k, table, positions, 3, 1, 8)
		}, []string{rope, norm, rope}},
		"stored from elsewhere": {func() {
			turn(q, table, positions, 3, 2, 8)
			turn(k, table, positions, 3, 1, 8)
			d.StoreKV(gpu.KVRows{
				Heads: gpu.Heads{H: 2, G: 1, D: 8}, K: arena.Slice(0, 128), V: arena.Slice(128, 256),
				NewK: x.Slice(0, 3*8), NewV: k.Slice(0, 3*8), Slots: slots,
			})
		}, []string{heads, store}},
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

// Rows have the same bits among more than a decode batch, as in training, and in batches whose heads are one.
func TestTurnsKeepTheirBits(t *testing.T) {
	t.Parallel()
	const rows, width = 512 + 3, 6
	for _, products := range []gpu.DType{gpu.F32, gpu.BF16} {
		d := open(t, cuda.Options{Products: products})
		p := devicetest.NewPair(t, d)
		q, k, table, places := p.Activations(rows*2*width, 1).Dev, p.Activations(rows*width, 1).Dev, p.Random(9*width, 1).Dev, make([]int32, rows)
		for i := range places {
			places[i] = int32(i % 9)
		}
		positions, before := p.Ints(places...).Dev, [2][]float32{p.Download(q), p.Download(k)}
		turned := func(bounds ...int) (all []float32, launched int) {
			d.Upload(q, before[0])
			d.Upload(k, before[1])
			from := 0
			for _, to := range bounds {
				if err := d.Sync(); err != nil {
					t.Fatal(err)
				}
				d.RoPE(q.Slice(from*2*width, to*2*width), table, positions.Slice(from, to), width, false)
				d.RoPE(k.Slice(from*width, to*width), table, positions.Slice(from, to), width, false)
				launched += len(d.Waiting())
				from = to
			}
			return append(p.Download(q), p.Download(k)...), launched
		}
		whole, two := turned(rows)
		cut, one := turned(1, 5, rows-3, rows)
		if !slices.Equal(whole, cut) || two != 2 || one != 4 {
			t.Errorf("products in %v: equal bits: %v; %d launches of all rows, want 2; %d of four batches, want 4", products, slices.Equal(whole, cut), two, one)
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

// Rows are multiplied apart where they are not the same, or not all.
func TestFewRowsStayApart(t *testing.T) {
	t.Parallel()
	const k, n = 24, 20
	d := open(t, cuda.Options{Products: gpu.BF16})
	p := devicetest.NewPair(t, d)
	x, other, y, z := p.Activations(4*k, 1).Dev, p.Activations(4*k, 1).Dev, p.Activations(4*n, 1).Dev, p.Activations(6*n, 1).Dev
	w, narrow := d.NewWeight(p.Stored(gpu.BF16, n*k).Dev, n, k), d.NewWeight(p.Stored(gpu.BF16, n*k*2/3).Dev, n, k*2/3)
	sum := p.Random(4*n, 1).Dev
	for name, second := range map[string]func(){
		"other rows":              func() { d.MatMul(z.Slice(0, 4*n), other, w) },
		"some of the rows":        func() { d.MatMul(z.Slice(0, 3*n), x.Slice(0, 3*k), w) },
		"as more, narrower rows":  func() { d.MatMul(z, x, narrow) },
		"as many, narrower rows":  func() { d.MatMul(z.Slice(0, 4*n), x.Slice(0, 4*k*2/3), narrow) },
		"a result in float32":     func() { d.MatMul(sum, x, w) },
		"a weight that is result": func() { d.MatMul(z.Slice(0, 12), x, d.NewWeight(y.Slice(0, 3*k), 3, k)) },
	} {
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		d.MatMul(y, x, w)
		second()
		if n := len(d.Waiting()); n != 2 {
			t.Errorf("%s: %d launches, want 2", name, n)
		}
	}
}
