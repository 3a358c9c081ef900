package cuda_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
)

// Operations that may be launched as one leave what they leave one by one, wherever an operation writes what another
// reads or writes: buffers lie at random places of a memory in which they often meet.
func TestJoinedOverSharedMemory(t *testing.T) {
	t.Parallel()
	for _, library := range []emulator.Library{emulator.Ascending, emulator.Descending} { // blocks, too, take their turns so
		for _, products := range []gpu.DType{gpu.F32, gpu.BF16} {
			d := open(t, cuda.Options{Products: products, NoGraphs: true, Libraries: emulator.Folders(t, library)})
			overSharedMemory(t, d, "sum and norm", sumAndNorm)
			overSharedMemory(t, d, "heads with norms", headsAndStore)
			overSharedMemory(t, d, "heads", turnsAndStore)
			if products == gpu.BF16 { // products in float32 are not joined
				overSharedMemory(t, d, "few rows", threeProducts)
			}
		}
	}
}

func overSharedMemory(t *testing.T, d *cuda.Device, name string, sequence func(m *sharedMemory) (list []func(), legal bool)) {
	t.Helper()
	m := newSharedMemory(t, d)
	times, most := map[int]int{}, 0 // times by launches, of which operations take from one to as many as they are
	for range 400 {
		operations, legal := sequence(m)
		for !legal {
			operations, legal = sequence(m)
		}
		one, launched := m.run(operations, func() {})
		times[launched]++
		most = len(operations)
		alone, _ := m.run(operations, func() { m.sync() })
		for i, x := range one {
			if x != alone[i] {
				t.Fatalf("%s, activations in %v: %d operations in %d launches leave %#x at %d, one by one %#x",
					name, d.ActivationType(), len(operations), launched, x, i, alone[i])
			}
		}
	}
	for n := 1; n <= most; n++ {
		if times[n] < 3 {
			t.Errorf("%s, activations in %v: of 400 sequences %d were %d launches: %v", name, d.ActivationType(), times[n], n, times)
		}
	}
}

// sharedMemory is a memory of which buffers are random parts.
type sharedMemory struct {
	t                *testing.T
	d                *cuda.Device
	rng              *rand.Rand
	all              gpu.Buffer // of words
	positions, slots gpu.Buffer
	start            []float32 // what all holds before operations, as BF16
}

const sharedWords = 224

// sharedHeads are those of two rows.
var sharedHeads = gpu.Heads{H: 2, G: 1, D: 2}

func newSharedMemory(t *testing.T, d *cuda.Device) *sharedMemory {
	t.Helper()
	m := &sharedMemory{t: t, d: d, rng: rand.New(rand.NewPCG(21, 22))}
	ints := func(x ...int32) gpu.Buffer {
		b, err := d.Alloc(gpu.I32, len(x))
		if err != nil {
			t.Fatal(err)
		}
		d.UploadInts(b, x)
		return b
	}
	var err error
	if m.all, err = d.Alloc(gpu.F32, sharedWords); err != nil {
		t.Fatal(err)
	}
	m.positions, m.slots, m.start = ints(2, 0), ints(1, 14), rounded(randoms(m.rng, 2*sharedWords))
	return m
}

// part is n elements at a random place.
func (m *sharedMemory) part(kind gpu.DType, n int) gpu.Buffer {
	words := (n*kind.Size() + 3) / 4
	return m.view(kind, n, m.rng.IntN((sharedWords-words)/2+1)*2)
}

// partOr is a part, or one that there is.
func (m *sharedMemory) partOr(b gpu.Buffer) gpu.Buffer {
	if m.rng.IntN(3) == 0 {
		return b
	}
	return m.part(b.Type, b.Len)
}

func (m *sharedMemory) view(kind gpu.DType, n, word int) gpu.Buffer {
	b := m.all
	b.Type, b.Off, b.Len = kind, word*4/kind.Size(), n
	return b
}

// output says that an operation's output meets none of its other buffers, as gpu.Device asks; one that is the output
// itself is of an operation in place.
func output(b gpu.Buffer, others ...gpu.Buffer) bool {
	return !slices.ContainsFunc(others, func(o gpu.Buffer) bool {
		x, y := b.Type.Size(), o.Type.Size()
		return o != b && b.Off*x < (o.Off+o.Len)*y && o.Off*y < (b.Off+b.Len)*x
	})
}

func (m *sharedMemory) sync() {
	m.t.Helper()
	if err := m.d.Sync(); err != nil {
		m.t.Fatal(err)
	}
}

// run gives the bits that operations leave, of which a NaN is any, and in how many launches.
func (m *sharedMemory) run(operations []func(), between func()) (bits []uint32, launched int) {
	m.t.Helper()
	m.d.Upload(m.view(gpu.BF16, 2*sharedWords, 0), m.start)
	m.sync()
	for _, operation := range operations {
		operation()
		between()
	}
	launched = len(m.d.Waiting())
	for _, x := range values(m.t, m.d, m.view(gpu.BF16, 2*sharedWords, 0)) {
		if x != x {
			x = float32(math.NaN())
		}
		bits = append(bits, math.Float32bits(x))
	}
	return bits, launched
}

// norm is RMSNorm of r rows. Its output may begin where other memory does.
func (m *sharedMemory) norm(x gpu.Buffer, r int, others ...gpu.Buffer) (y gpu.Buffer, run func(), legal bool) {
	gain, rstd := m.part(gpu.F32, x.Len/r), m.part(gpu.F32, r)
	y = m.part(gpu.ActivationType(m.d), x.Len)
	if i := m.rng.IntN(len(others) + 1); i < len(others) {
		y = m.view(y.Type, y.Len, others[i].Off*others[i].Type.Size()/4)
	}
	if y.Type == x.Type {
		y = m.partOr(x)
	}
	legal = output(y, x, gain, rstd) && output(rstd, x, gain) && rstd != x
	return y, func() { m.d.RMSNorm(y, rstd, x, gain, 1e-5) }, legal
}

func sumAndNorm(m *sharedMemory) (list []func(), legal bool) {
	const rows, width = 3, 8
	a, b := m.part(gpu.F32, rows*width), m.part(gpu.F32, rows*width)
	x := m.partOr(a)
	_, norm, legal := m.norm(x, rows, a, b)
	return []func(){func() { m.d.Add(x, a, b) }, norm}, legal && output(x, a, b)
}

func headsAndStore(m *sharedMemory) (list []func(), legal bool) {
	kind, rows := gpu.ActivationType(m.d), m.positions.Len
	qr, normQ, legalQ := m.norm(m.part(kind, rows*sharedHeads.H*sharedHeads.D), rows*sharedHeads.H)
	kr, normK, legalK := m.norm(m.part(kind, rows*sharedHeads.G*sharedHeads.D), rows*sharedHeads.G)
	turns, legal := m.turnsAndStore(qr, kr)
	return append([]func(){normQ, normK}, turns...), legalQ && legalK && legal
}

func turnsAndStore(m *sharedMemory) (list []func(), legal bool) {
	kind, rows := gpu.ActivationType(m.d), m.positions.Len
	return m.turnsAndStore(m.part(kind, rows*sharedHeads.H*sharedHeads.D), m.part(kind, rows*sharedHeads.G*sharedHeads.D))
}

// turnsAndStore turns queries and keys, which may share memory, and stores the keys.
func (m *sharedMemory) turnsAndStore(q, k gpu.Buffer) (list []func(), legal bool) {
	h := sharedHeads
	table, v := m.part(gpu.F32, 3*h.D), m.partOr(k)
	keys, values := m.part(k.Type, 16*h.G*h.D), m.part(k.Type, 16*h.G*h.D)
	return []func(){
		func() { m.d.RoPE(q, table, m.positions, h.D, false) },
		func() { m.d.RoPE(k, table, m.positions, h.D, false) },
		func() {
			m.d.StoreKV(gpu.KVRows{Heads: h, K: keys, V: values, NewK: k, NewV: v, Slots: m.slots})
		},
	}, output(table, q, k) && output(keys, k, v, values) && output(values, k, v)
}

func threeProducts(m *sharedMemory) (list []func(), legal bool) {
	const rows, k = 3, 4
	x, kind := m.part(gpu.BF16, rows*k), []gpu.DType{gpu.F32, gpu.BF16}[m.rng.IntN(2)]
	legal = true
	for _, n := range []int{5, 2, 17} {
		w, y := m.d.NewWeight(m.part(gpu.BF16, n*k), n, k), m.part(kind, rows*n)
		legal = legal && output(y, x, w.Buffer) && y != x
		list = append(list, func() { m.d.MatMul(y, x, w) })
	}
	return list, legal
}
