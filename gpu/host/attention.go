package host

import (
	"math"
	"slices"
	"unsafe"

	"understudy/gpu"
)

// Attention walks the keys of a query row in chunks of 16 (a page) from position 0, with an
// online softmax over the chunks. A row's arithmetic is its own: scores are chains over D,
// weighted values chains over the keys, and a row for which a chunk holds nothing is left as
// it was. So rows may be taken together in any way without changing a bit: rows of a
// sequence in training, rows of all sequences that share a page in generation.

// query is a row of queries and its place among the keys.
type query struct {
	row      int     // of Q and Out
	position int32   // attends to positions 0..position
	pages    []int32 // page ids up to its own; nil when keys lie in order
}

// attention is one call, training or generation.
type attention struct {
	gpu.Heads
	scale     float32
	out, q    []float32
	k, v, lse []float32 // lse may be nil
	width     int       // D rounded up to whole registers
	paged     bool      // k and v are an arena
}

// queryBlock is the tokens of a sequence that one task takes: enough to make turning the
// keys cheap, few enough to share a long sequence between the threads.
const queryBlock = 128

// Attend is causal attention within packed sequences.
func (d *Device) Attend(t gpu.Attention) {
	a := newAttention(t.Heads, t.Scale, t.Out, t.Q, t.K, t.V)
	a.lse = floats(t.LSE)
	blocks := sequenceBlocks(ints(t.Starts), ints(t.Asked))
	d.pool.run(len(blocks)*a.G, func(w *worker, task int) {
		b, g := blocks[task/a.G], task%a.G
		rows := make([]query, 0, b.end-b.from)
		for t := b.from; t < b.end; t++ {
			rows = append(rows, query{row: t, position: int32(t - b.start)})
		}
		d.attend(w, a, g, rows, func(_ query, i, keys int) keyChunk {
			return a.packedChunk(d, w, b.start+i*chunk, g, keys)
		})
	})
}

// sequenceBlock is rows from..end-1 of the sequence that starts at row start.
type sequenceBlock struct{ start, from, end int }

func sequenceBlocks(starts, asked []int32) []sequenceBlock {
	var blocks []sequenceBlock
	for from := 0; from < len(starts); {
		if asked != nil && asked[from] == 0 {
			from++
			continue
		}
		end := from + 1
		for end < len(starts) && starts[end] == starts[from] && end < from+queryBlock {
			end++
		}
		blocks = append(blocks, sequenceBlock{int(starts[from]), from, end})
		from = end
	}
	slices.Reverse(blocks) // the last of a sequence costs most
	return blocks
}

func newAttention(h gpu.Heads, scale float32, out, q, k, v gpu.Buffer) attention {
	a := attention{Heads: h, scale: scale, out: floats(out), q: floats(q), k: floats(k), v: floats(v)}
	a.width = (h.D + chunk - 1) / chunk * chunk
	return a
}

// group is the query heads of a key/value head.
func (a attention) group() int { return a.H / a.G }

// attend lets the query heads of key/value head g of some rows attend. Rows that share their
// first pages stand together, shorter ones first.
func (d *Device) attend(w *worker, a attention, g int, rows []query, keys chunkFunc) {
	s := newSoftmaxState(w, a, g, rows)
	done := make([]int, len(rows)) // chunks that a row has attended to before its turn
	last := int32(0)
	for _, r := range rows {
		last = max(last, r.position)
	}
	for i := 0; i <= int(last)/chunk; i++ {
		for from := 0; from < len(rows); {
			if int(rows[from].position) < i*chunk || done[from] > i {
				from++
				continue
			}
			end := from + 1
			for end < len(rows) && done[end] <= i && samePage(rows[from], rows[end], i) {
				end++
			}
			if done[from] = d.attendAlone(w, a, g, s, [2]int{from, end}, i); done[from] > i {
				from = end
				continue
			}
			d.attendChunk(w, a, s, [2]int{from, end}, i, keys)
			from = end
		}
	}
	s.finish(d, a, g)
}

func page(q query, i int) int32 {
	if q.pages == nil {
		return 0
	}
	return q.pages[i]
}

func samePage(a, b query, i int) bool {
	return int(b.position) >= i*chunk && page(a, i) == page(b, i)
}

// softmaxState is what has been summed for rows × heads of the group, in that order.
type softmaxState struct {
	rows  []query
	q     []float32 // (rows·group, width) queries
	acc   []float32 // (rows·group, width) Σ weight·value
	state []float32 // (rows·group, 2) greatest score, Σ weight
	valid []int32   // (rows·group) how many keys of the chunk count
	pages []int32   // of the row that attends alone
}

func newSoftmaxState(w *worker, a attention, g int, rows []query) *softmaxState {
	n := len(rows) * a.group()
	s := &softmaxState{
		rows: rows, q: w.floats(scratchQ, n*a.width), acc: w.floats(scratchO, n*a.width),
		state: w.floats(scratchG, 2*n), valid: make([]int32, n),
	}
	for i := range n {
		s.state[2*i], s.state[2*i+1] = float32(math.Inf(-1)), 0
		copy(s.q[i*a.width:], a.query(a.q, rows[i/a.group()].row, g, i%a.group()))
	}
	return s
}

// query is the vector of head i of group g in a row of x (R,H,D).
func (a attention) query(x []float32, row, g, i int) []float32 {
	from := (row*a.H + g*a.group() + i) * a.D
	return x[from : from+a.D]
}

// chunkFunc gives the i-th chunk of a row, of which the first keys count.
type chunkFunc func(q query, i, keys int) keyChunk

// keyChunk is the keys of a chunk as (D,16), its first values as rows of whole registers, ldv
// apart, and how many bytes after these the next chunk's lie, if that is known.
type keyChunk struct {
	kT, v      []float32
	ldv, ahead int
}

// attendChunk adds the chunk i to rows[0]..rows[1]-1.
func (d *Device) attendChunk(w *worker, a attention, s *softmaxState, rows [2]int, i int, chunks chunkFunc) {
	keys, fewest, first, load := 0, chunk, i*chunk, 1
	if i == 0 {
		load = 0
	}
	for r := rows[0]; r < rows[1]; r++ {
		n := min(chunk, int(s.rows[r].position)+1-first)
		keys, fewest = max(keys, n), min(fewest, n)
		for h := range a.group() {
			s.valid[r*a.group()+h] = int32(n)
		}
	}
	c := chunks(s.rows[rows[0]], i, keys)
	from, n := rows[0]*a.group(), (rows[1]-rows[0])*a.group()
	scores, parts := w.floats(scratchS, n*chunk), split(n, d.k.rows)
	for t, row := 0, 0; t < parts.parts; t++ {
		m := parts.size(t)
		d.k.half[m](a.D, &s.q[(from+row)*a.width], 4*a.width, 4, unsafe.Pointer(&c.kT[0]), 4*chunk, &scores[row*chunk], 4*chunk, 0, c.ahead, 4*chunk)
		row += m
	}
	acc := s.acc[from*a.width:]
	d.k.softmax(n, &scores[0], &s.valid[from], &s.state[2*from], &acc[0], a.width, a.scale)
	x := smallProduct{
		m: n, n: a.width, k: keys, a: scores, rs: chunk, cs: 1,
		b: c.v, ldb: c.ldv, c: acc, ldc: a.width, load: load, ahead: c.ahead,
	}
	if fewest < keys && !d.finiteRows(w, x) {
		d.multiplySeen(x, func(i int) [2]int { return [2]int{0, int(s.valid[from+i])} })
		return
	}
	d.multiplySmall(x)
}

// packedChunk is the chunk of keys and values that starts at a row.
func (a attention) packedChunk(d *Device, w *worker, row, g, keys int) keyChunk {
	kT := w.floats(scratchK, a.D*chunk)
	stride := a.G * a.D
	k := a.k[row*stride+g*a.D:]
	if keys < chunk || a.D%8 != 0 {
		padded := w.floats(scratchV, chunk*a.width)
		clear(padded)
		copyRows(padded, a.width, k, stride, keys, a.D)
		d.k.turn(kT, chunk, padded, a.width, chunk, a.D)
	} else {
		d.k.turn(kT, chunk, k, stride, chunk, a.D)
	}
	v, ldv := a.wholeRegisters(w, a.v[row*stride+g*a.D:], stride, keys)
	return keyChunk{kT: kT, v: v, ldv: ldv}
}

// wholeRegisters is rows of D values, lds apart, as rows that can be read to the end of a
// register.
func (a attention) wholeRegisters(w *worker, v []float32, lds, rows int) (wide []float32, ldv int) {
	if a.width == a.D {
		return v, lds
	}
	wide = w.floats(scratchV, chunk*a.width)
	clear(wide)
	copyRows(wide, a.width, v, lds, rows, a.D)
	return wide, a.width
}

// finish divides by the sums of weights and writes the rows out.
func (s *softmaxState) finish(d *Device, a attention, g int) {
	for i := range s.valid {
		row, h := s.rows[i/a.group()].row, i%a.group()
		out, sum := a.query(a.out, row, g, h), s.state[2*i+1]
		d.k.scale(a.D, &out[0], &s.acc[i*a.width], 1/sum)
		if a.lse != nil {
			a.lse[row*a.H+g*a.group()+h] = float32(float64(s.state[2*i]) + math.Log(float64(sum)))
		}
	}
}

// smallProduct is C (m,n) = or += A·B, n whole registers of 16 and B's rows ldb apart.
type smallProduct struct {
	m, n, k int
	a       []float32
	rs, cs  int
	b       []float32
	ldb     int
	c       []float32
	ldc     int
	load    int // 1: +=
	ahead   int // bytes after a row of B, what is needed soon
}

// multiplySmall is a product on one thread with nothing packed.
func (d *Device) multiplySmall(x smallProduct) {
	if x.k == 0 {
		return
	}
	_, _, _ = x.a[(x.m-1)*x.rs+(x.k-1)*x.cs], x.b[(x.k-1)*x.ldb+x.n-1], x.c[(x.m-1)*x.ldc+x.n-1]
	parts := split(x.m, d.k.rows)
	for j := 0; j < x.n; {
		tiles, width := d.k.f32, d.k.width
		if x.n-j < width {
			tiles, width = d.k.half, chunk
		}
		for t, row := 0, 0; t < parts.parts; t++ {
			m := parts.size(t)
			tiles[m](x.k, &x.a[row*x.rs], 4*x.rs, 4*x.cs, unsafe.Pointer(&x.b[j]), 4*x.ldb, &x.c[row*x.ldc+j], 4*x.ldc, x.load, x.ahead, 4*x.ldb)
			row += m
		}
		j += width
	}
}
