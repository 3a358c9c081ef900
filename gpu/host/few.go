package host

import (
	"unsafe"

	"understudy/gpu"
	"understudy/gpu/half"
)

// tallFunc computes C (m,16) = or += A (m,k) · B (k,16) for one height m. A's element (i,p) is
// a[p*m+i]; rows of B follow each other; C's are ldc bytes apart and read only if load is not
// 0. What lies ahead bytes after B is fetched, and a line of soon with every two rows of B, step
// bytes apart. An element is one chain over p = 0..k-1.
type tallFunc func(k int, a *float32, b unsafe.Pointer, c *float32, ldc, load, ahead int, soon unsafe.Pointer, step int)

// panels is a weight (n,k), as matrix B (k,n) of products with few rows: of its first depth
// rows, columns 16j..16j+15, row after row, missing columns zero, then the next panel; then
// the next depth rows. So one product reads it once, as one stream.
type panels struct {
	n, k, depth int
	bf16        bool      // two rows in one, see gen/tall.go
	words       []float32 // none: not packed
}

// depthOf is the rows of B that are multiplied at a time. With few, the rows of A that they
// meet stay in a first-level cache, whose traffic would hold up the stream; C passes once
// more. That pays where B comes from memory and is the limit, and C is small.
func depthOf(n, k int, bf16 bool) int {
	const depth, small, large = 192, 4096, 100_000
	if bf16 || n > small || n*k < large {
		return max(1, k)
	}
	return max(8, (ceil(k, max(1, ceil(k, depth)))+7)&^7) // blocks of one size, in eights, as weights are turned
}

// packed is how many rows of words hold so many rows.
func (p panels) packed(rows int) int {
	if p.bf16 {
		return ceil(rows, 2)
	}
	return rows
}

func (p panels) count() int { return ceil(p.n, chunk) }

// at is the index of the word where panel j's row i starts; i is even.
func (p panels) at(j, i int) int {
	from := i / p.depth * p.depth
	panel := p.packed(min(p.depth, p.k-from))
	return (p.packed(from)*p.count() + j*panel + p.packed(i-from)) * chunk
}

// newPanels lays a weight out, in the given memory when it fits.
func newPanels(d *Device, m matrix, rounded bool, words []float32) panels {
	p := panels{n: m.rows, k: m.cols, bf16: m.kind == gpu.BF16 || rounded, words: words}
	p.depth = depthOf(p.n, p.k, p.bf16)
	if n := p.count() * p.packed(p.k) * chunk; len(words) != n {
		p.words = d.words(n)
	}
	d.pool.run(p.count(), func(_ *worker, j int) {
		for i := 0; i < p.k; i += p.depth {
			p.pack(&d.k, m, j, i, min(p.depth, p.k-i))
		}
	})
	return p
}

// words gives memory for panels, those of many weights one after the other, so that all of
// them lie in large pages. It goes back when none of them is left.
func (d *Device) words(n int) []float32 {
	const together = 4 << 20 // 16 MB
	if n > together/4 {
		return hugePages(make([]float32, n))
	}
	if n > len(d.slab) {
		d.slab = hugePages(make([]float32, together))
	}
	words := d.slab[:n:n]
	d.slab = d.slab[(n+chunk-1)/chunk*chunk:]
	return words
}

// pack writes rows i..i+kc-1 of panel j.
func (p panels) pack(k *kernels, m matrix, j, i, kc int) {
	n0, dst := j*chunk, p.words[p.at(j, i):][:p.packed(kc)*chunk]
	n := min(chunk, p.n-n0)
	if n < chunk {
		clear(dst)
	}
	switch {
	case p.bf16:
		p.packPairs(unsafe.Slice((*uint32)(unsafe.Pointer(&dst[0])), len(dst)), m, n0, n)
	case m.kind == gpu.F16:
		for c := range n {
			from := (n0+c)*p.k + i
			for r, x := range m.f16[from : from+kc] {
				dst[r*chunk+c] = half.FromF16(x)
			}
		}
	default:
		k.turn(dst, chunk, m.f32[n0*p.k+i:], p.k, n, kc)
	}
}

// packPairs writes words of two rows, all of a panel.
func (p panels) packPairs(dst []uint32, m matrix, n0, n int) {
	row := make([]uint16, p.k+p.k%2)
	for j := range n {
		m.narrow(row[:p.k], (n0+j)*p.k)
		for i := 0; i < p.k; i += 2 {
			dst[i/2*chunk+j] = uint32(row[i]) | uint32(row[i+1])<<16
		}
	}
}

// streamAhead is how far ahead of a product the weight is fetched, in bytes: two pages of
// memory, since processors fetch by themselves only within a page.
const streamAhead = 8 << 10

// multiplyFew computes C (m,n) = A (m,k)·B, m less than packRows.
func (d *Device) multiplyFew(c, a []float32, m int, b panels) {
	if m == 0 || b.n == 0 {
		return
	}
	a, c = a[:m*b.k], c[:m*b.n]
	if b.k == 0 {
		clear(c)
		return
	}
	s := split(m, d.k.tall)
	rows := d.turnFew(a, s, b.k)
	group := b.count()
	if threads := len(d.pool.workers); threads > 1 && m*b.n*b.k > smallWork {
		group = ceil(group, taskCount(m, threads))
	}
	d.pool.run(ceil(b.count(), group), func(w *worker, task int) {
		for i := 0; i < b.k; i += b.depth {
			for j := task * group; j < min(b.count(), (task+1)*group); j++ {
				d.multiplyPanel(w, c, rows, s, b, j, [2]int{i, min(b.k, i+b.depth)})
			}
		}
	})
}

// multiplyPanel computes 16 columns of C, as far as rows k[0]..k[1]-1 of B go.
func (d *Device) multiplyPanel(w *worker, c, a []float32, s parting, b panels, j int, k [2]int) {
	tiles := d.k.tallF32
	if b.bf16 {
		tiles = d.k.tallBF16
	}
	depth, rows, ldc, n := k[1]-k[0], s.parts*s.base+s.extra, b.n, min(chunk, b.n-j*chunk)
	if s.parts > 1 {
		depth = blockK // stays in a first-level cache
	}
	to := c[j*chunk:]
	if n < chunk {
		to, ldc = w.floats(scratchC, rows*chunk), chunk
		copyRows(to, chunk, c[j*chunk:], b.n, rows, n)
	}
	for p := k[0]; p < k[1]; p += depth {
		kc, from, ahead := min(depth, k[1]-p), unsafe.Pointer(&b.words[b.at(j, p)]), streamAhead
		soon, step := d.soon.take(kc/2, from)
		for t, row := 0, 0; t < s.parts; t++ {
			m := s.size(t)
			tiles[m](kc, &a[row*b.k+p*m], from, &to[row*ldc], 4*ldc, p, ahead, soon, step)
			row, ahead, step = row+m, 0, 0
		}
	}
	if n < chunk {
		copyRows(c[j*chunk:], b.n, to, chunk, rows, n)
	}
}

// turnFew gives A tile after tile, each as (k,m).
func (d *Device) turnFew(a []float32, s parting, k int) []float32 {
	m := s.parts*s.base + s.extra
	if m == 1 {
		return a
	}
	w := d.pool.workers[0]
	dst := w.floats(scratchA, m*k+8)
	for t, row := 0, 0; t < s.parts; t++ {
		d.turnTile(w, dst[row*k:], a[row*k:], s.size(t), k)
		row += s.size(t)
	}
	return dst
}

// turnTile writes src (m,k) as (k,m). It writes eights of columns from the last to the first,
// so that what they write too much is written over, as are up to 7 elements after the end.
func (d *Device) turnTile(w *worker, dst, src []float32, m, k int) {
	for i := (m - 1) &^ 7; i >= 0; i -= 8 {
		rows := src[i*k:]
		if m-i < 8 {
			rows = w.floats(scratchB, 8*k)
			copy(rows, src[i*k:m*k])
		}
		if k >= 8 {
			_, _ = rows[8*k-1], dst[(k/8*8-1)*m+i+7]
			d.k.transpose(k/8, &rows[0], 4*k, &dst[i], 4*m)
		}
	}
	for p := k / 8 * 8; p < k; p++ {
		for i := range m {
			dst[p*m+i] = src[i*k+p]
		}
	}
}
