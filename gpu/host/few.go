package host

import (
	"unsafe"

	"understudy/gpu"
	"understudy/gpu/half"
)

// tallFunc computes C (m,16) = or += A (m,k) · B (k,16) for one height m. A's element (i,p) is
// a[p*m+i]; rows of B follow each other; C's are ldc bytes apart and read only if load is not
// 0. What lies ahead bytes after B is fetched. An element is one chain over p = 0..k-1.
type tallFunc func(k int, a *float32, b unsafe.Pointer, c *float32, ldc, load, ahead int)

// panels is a weight (n,k), as matrix B (k,n) of products with few rows: columns
// 16j..16j+15, row after row, missing columns zero, then the next panel. So one product reads
// it once, as one stream.
type panels struct {
	n, k  int
	bf16  bool      // two rows in one, see gen/tall.go
	words []float32 // none: not packed
}

// rows is the rows of words of a panel.
func (p panels) rows() int {
	if p.bf16 {
		return ceil(p.k, 2)
	}
	return p.k
}

func (p panels) count() int { return ceil(p.n, chunk) }

// panel is where panel j's row i starts; i is even.
func (p panels) panel(j, i int) unsafe.Pointer {
	if p.bf16 {
		i /= 2
	}
	return unsafe.Pointer(&p.words[(j*p.rows()+i)*chunk])
}

// newPanels lays a weight out, in the given memory when it fits.
func newPanels(d *Device, m matrix, rounded bool, words []float32) panels {
	p := panels{n: m.rows, k: m.cols, bf16: m.kind == gpu.BF16 || rounded, words: words}
	if n := p.count() * p.rows() * chunk; len(words) != n {
		p.words = d.words(n)
	}
	size := p.rows() * chunk
	d.pool.run(p.count(), func(_ *worker, j int) {
		dst := p.words[j*size : (j+1)*size]
		if p.n-j*chunk < chunk {
			clear(dst)
		}
		p.pack(&d.k, dst, m, j*chunk)
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

// pack writes the panel of the weight's rows n0..n0+15.
func (p panels) pack(k *kernels, dst []float32, m matrix, n0 int) {
	n := min(chunk, p.n-n0)
	switch {
	case p.k == 0:
	case p.bf16:
		p.packPairs(unsafe.Slice((*uint32)(unsafe.Pointer(&dst[0])), len(dst)), m, n0, n)
	case m.kind == gpu.F16:
		for j := range n {
			for i, x := range m.f16[(n0+j)*p.k : (n0+j+1)*p.k] {
				dst[i*chunk+j] = half.FromF16(x)
			}
		}
	default:
		k.turn(dst, chunk, m.f32[n0*p.k:], p.k, n, p.k)
	}
}

// packPairs writes words of two rows.
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
		for j := task * group; j < min(b.count(), (task+1)*group); j++ {
			d.multiplyPanel(w, c, rows, s, b, j)
		}
	})
}

// multiplyPanel computes 16 columns of C.
func (d *Device) multiplyPanel(w *worker, c, a []float32, s parting, b panels, j int) {
	tiles := d.k.tallF32
	if b.bf16 {
		tiles = d.k.tallBF16
	}
	depth, ldc, n := b.k, b.n, min(chunk, b.n-j*chunk)
	if s.parts > 1 {
		depth = blockK // stays in a first-level cache
	}
	to := c[j*chunk:]
	if n < chunk {
		to, ldc = w.floats(scratchC, (s.parts*s.base+s.extra)*chunk), chunk
	}
	for p := 0; p < b.k; p += depth {
		ahead := streamAhead
		for t, row := 0, 0; t < s.parts; t++ {
			m := s.size(t)
			tiles[m](min(depth, b.k-p), &a[row*b.k+p*m], b.panel(j, p), &to[row*ldc], 4*ldc, p, ahead)
			row, ahead = row+m, 0
		}
	}
	if n < chunk {
		copyRows(c[j*chunk:], b.n, to, chunk, s.parts*s.base+s.extra, n)
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
