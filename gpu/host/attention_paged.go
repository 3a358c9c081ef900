package host

import (
	"cmp"
	"slices"
	"unsafe"

	"understudy/gpu"
)

// The arena is laid out for the reader: a page has its G heads one after the other, of each
// the keys as (D,16), ready for a tile, or the values as (16,D).

// StoreKV writes keys and values of rows into their slots. A key is an element of each of D lines
// of memory: while those of a row are written, the next row's are fetched.
func (d *Device) StoreKV(s gpu.KVRows) {
	keys, values, k, v, slots := floats(s.K), floats(s.V), floats(s.NewK), floats(s.NewV), ints(s.Slots)
	for r, slot := range slots {
		page, i := int(slot)/chunk, int(slot)%chunk
		next := int(slots[min(r+1, len(slots)-1)]) / chunk
		for g := range s.G {
			from, at := (r*s.G+g)*s.D, (page*s.G+g)*s.D*chunk
			if next != page {
				d.k.fetch(s.D, &keys[(next*s.G+g)*s.D*chunk])
			}
			for j, x := range k[from : from+s.D] {
				keys[at+j*chunk+i] = x
			}
			copy(values[at+i*s.D:][:s.D], v[from:])
		}
	}
}

// AttendPaged is causal attention over the arena.
func (d *Device) AttendPaged(p gpu.PagedAttention) {
	d.soon.forget()
	a := newAttention(p.Heads, p.Scale, p.Out, p.Q, p.K, p.V)
	a.paged = true
	rows := pagedQueries(p)
	each := min(queryBlock, max(4, ceil(len(rows)*a.G, 2*len(d.pool.workers))))
	d.pool.run(ceil(len(rows), each)*a.G, func(w *worker, task int) {
		block, g := rows[task/a.G*each:min(len(rows), (task/a.G+1)*each)], task%a.G
		d.attend(w, a, g, block, func(q query, i, keys int) keyChunk {
			size := a.D * chunk
			from := (int(q.pages[i])*a.G + g) * size
			c := keyChunk{kT: a.k[from : from+size]}
			c.v, c.ldv = a.wholeRegisters(w, a.v[from:from+size], a.D, keys)
			if i+1 < len(q.pages) && a.width == a.D {
				c.ahead = 4 * int(q.pages[i+1]-q.pages[i]) * a.G * size
			}
			return c
		})
	})
}

// alonePages is how many pages an aloneFunc fetches ahead.
const alonePages = 5

// table is the pages i..end-1 of a row, and those that are wanted soon after: the first of the
// next row.
func (s *softmaxState) table(row, i, end int) []int32 {
	s.pages = append(s.pages[:0], s.rows[row].pages[i:end]...)
	if row+1 < len(s.rows) {
		next := s.rows[row+1].pages
		s.pages = append(s.pages, next[min(i, len(next)):min(i+alonePages, len(next))]...)
	}
	for len(s.pages) < end-i+alonePages {
		s.pages = append(s.pages, s.pages[end-i-1])
	}
	return s.pages
}

// aloneFunc lets m query rows attend to whole pages, see gen/alone.go.
type aloneFunc func(pages int, table *int32, k, v *float32, stride int, q *float32, ldq, d int, s, state, acc *float32, scale float32)

// attendAlone lets a row that shares its page i with no other attend to all pages that it
// fills from there on, and gives the first that is left, i when it has no kernel for that.
func (d *Device) attendAlone(w *worker, a attention, g int, s *softmaxState, rows [2]int, i int) int {
	m := a.group()
	if rows[1]-rows[0] > 1 || !a.paged || m >= len(d.k.alone) || a.width != a.D {
		return i
	}
	q := s.rows[rows[0]]
	full := (int(q.position) + 1) / chunk
	if full <= i {
		return i
	}
	table, size, from := s.table(rows[0], i, full), a.D*chunk, rows[0]*m
	end := (int(slices.Max(table))*a.G + g + 1) * size
	_, _ = a.k[:end], a.v[:end]
	acc := s.acc[from*a.width : (from+m)*a.width]
	if i == 0 {
		clear(acc)
	}
	d.k.alone[m](full-i, &table[0], &a.k[g*size], &a.v[g*size], 4*a.G*size, &s.q[from*a.width], 4*a.width, a.D,
		&w.floats(scratchS, 2*m*chunk)[0], &s.state[2*from], &acc[0], a.scale)
	return full
}

// pagedQueries sorts rows so that those that share pages stand together.
func pagedQueries(p gpu.PagedAttention) []query {
	tables, positions := ints(p.Tables), ints(p.Positions)
	rows := make([]query, 0, len(positions))
	for r, s := range ints(p.Sequences) {
		pages := tables[int(s)*p.P:][:positions[r]/gpu.PageSize+1]
		rows = append(rows, query{row: r, position: positions[r], pages: pages})
	}
	slices.SortStableFunc(rows, func(a, b query) int {
		if unsafe.SliceData(a.pages) == unsafe.SliceData(b.pages) { // the same sequence
			return cmp.Compare(a.position, b.position)
		}
		return cmp.Or(slices.Compare(a.pages, b.pages), cmp.Compare(a.position, b.position))
	})
	return rows
}
