package host

import "unsafe"

// tallFunc computes C (m,16·panels) = or += A (m,k) · B for one height m. A's element (i,p) is
// a[p*m+i]; B is panels of 16 columns as they follow each other in memory; C's rows are ldc
// bytes apart and read only if load is not 0. With every two rows of B, those at b+ahead are
// fetched, and ahead grows by pace; so is a line of soon, which moves by step. An element is
// one chain over p = 0..k-1.
type tallFunc func(panels, k int, a *float32, b unsafe.Pointer, c *float32, ldc, load, ahead, pace int, soon unsafe.Pointer, step int)

// streamAhead is how far ahead of a product the weight is fetched, in bytes: two pages of
// memory, since processors fetch by themselves only within a page.
const streamAhead = 8 << 10

// callBytes is how much of a weight one call of a tile reads: little enough for the program to
// stop a thread soon after it is asked to, which it can only between calls.
const callBytes = 256 << 10

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
	x := tallProduct{a: d.turnFew(a, s, b.k), tiles: s, b: b}
	group := b.count()
	if threads := len(d.pool.workers); threads > 1 && m*b.n*b.k > smallWork {
		group = ceil(group, taskCount(m, threads))
	}
	d.pool.run(ceil(b.count(), group), func(w *worker, task int) {
		from, end := task*group, min(b.count(), (task+1)*group)
		whole := min(end, b.n/chunk)
		for i := 0; i < b.k; i += b.depth {
			k := [2]int{i, min(b.k, i+b.depth)}
			d.multiplyTall(x, c[from*chunk:], b.n, [2]int{from, whole}, k)
			if whole < end {
				n, edge := b.n-whole*chunk, w.floats(scratchC, m*chunk)
				copyRows(edge, chunk, c[whole*chunk:], b.n, m, n)
				d.multiplyTall(x, edge, chunk, [2]int{whole, end}, k)
				copyRows(c[whole*chunk:], b.n, edge, chunk, m, n)
			}
		}
	})
}

// tallProduct is A, turned, and B.
type tallProduct struct {
	a     []float32 // tile after tile
	tiles parting
	b     panels
}

// multiplyTall computes the columns of panels j[0]..j[1]-1, of which c is the first, as far as
// rows k[0]..k[1]-1 of B go. One tile takes panels as they come. Where several take the same
// panel, one after the other, the first finds it in a second-level cache, where all of them
// have fetched a part of it, and the others in the first.
func (d *Device) multiplyTall(x tallProduct, c []float32, ldc int, j, k [2]int) {
	tiles, pair := d.k.tallF32, 8*chunk
	if x.b.bf16 {
		tiles, pair = d.k.tallBF16, 4*chunk
	}
	depth, most, block := k[1]-k[0], 1, 0
	if x.tiles.parts > 1 {
		depth = min(depth, blockK)
		block = depth / 2 * pair
	} else {
		most = max(1, callBytes/(ceil(depth, 2)*pair))
	}
	pace := ceil(pair, x.tiles.parts)
	for panel := j[0]; panel < j[1]; {
		n := d.soon.panels(min(most, j[1]-panel), depth/2)
		for p := k[0]; p < k[1]; p += depth {
			kc, from, row := min(depth, k[1]-p), unsafe.Pointer(&x.b.words[x.b.at(panel, p)]), 0
			ahead := max(streamAhead, block)
			soon, step := d.soon.take(n*kc/2, from)
			for t := range x.tiles.parts {
				m := x.tiles.size(t)
				tiles[m](n, kc, &x.a[row*x.b.k+p*m], from, &c[row*ldc+(panel-j[0])*chunk], 4*ldc, p, ahead, pace, soon, step)
				row, ahead, step = row+m, ahead+kc/2*pace, 0
			}
		}
		panel += n
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
