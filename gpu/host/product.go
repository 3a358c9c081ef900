package host

// Blocks of a product. A tile's chain of additions passes through C in memory from block to
// block, so that their sizes change no bit.
const (
	blockK = 288  // most rows of a B block: 36 kB at width 32, three quarters of a first-level cache
	blockM = 1024 // rows of an A block: 1 MB, half of a second-level cache

	fewRows   = 24      // a product of so few rows streams B: A is not copied, and each thread has one task
	smallWork = 1 << 16 // multiplications that cost about what waking a thread costs
)

// product is C (m,n) = A·B, or += when add is set. A's element (i,p) is a[i*rs+p*cs]; C's
// rows are ldc apart.
type product struct {
	m, n, k int
	a       []float32
	rs, cs  int
	b       operand
	c       []float32
	ldc     int
	add     bool
}

// multiply splits C between the workers: by panels of B, and by rows where there are few
// panels. Nothing is split along k, so that the threads change no bit.
func (d *Device) multiply(x product) {
	if x.m == 0 || x.n == 0 {
		return
	}
	x.check()
	if x.k == 0 {
		x.clear()
		return
	}
	panels := x.b.panels()
	group, rows := d.shares(x)
	groups, blocks := ceil(panels, group), ceil(x.m, rows)
	d.pool.run(groups*blocks, func(w *worker, task int) {
		j, i := task%groups*group, task/groups*rows
		d.multiplyPanels(w, x, [2]int{i, min(i+rows, x.m)}, [2]int{j, min(j+group, panels)})
	})
}

// shares gives the panels and the rows of a task: few rows only where panels are few, since
// each task packs its own blocks of A and B.
func (d *Device) shares(x product) (group, rows int) {
	panels, threads := x.b.panels(), len(d.pool.workers)
	rows = ceil(x.m, ceil(x.m, blockM))
	if threads == 1 || x.m*x.n*x.k <= smallWork {
		return panels, rows
	}
	const leastPanels, leastRows = 8, 192
	tasks := taskCount(x.m, threads)
	for rows > leastRows && ceil(x.m, rows)*ceil(panels, leastPanels) < tasks {
		rows = ceil(rows, 2)
	}
	return max(1, ceil(panels, ceil(tasks, ceil(x.m, rows)))), rows
}

// taskCount is the tasks of a product of m rows: more than threads, so that one that falls
// behind can be helped, unless they are long streams.
func taskCount(m, threads int) int {
	if m <= fewRows {
		return threads
	}
	return 4 * threads
}

// ceil is a/b rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }

// check panics when a tile would reach outside of a slice: the assembler does not look.
func (x product) check() {
	_ = x.c[(x.m-1)*x.ldc+x.n-1]
	if x.k > 0 {
		_ = x.a[(x.m-1)*x.rs+(x.k-1)*x.cs]
	}
	if x.b.k() != x.k || x.b.n() != x.n {
		panic("host: the shapes of a product differ")
	}
}

func (x product) clear() {
	for i := 0; i < x.m && !x.add; i++ {
		clear(x.c[i*x.ldc : i*x.ldc+x.n])
	}
}

// multiplyPanels computes rows i[0]..i[1]-1 of panels j[0]..j[1]-1: it goes through k in
// blocks, and through all panels and rows in each.
func (d *Device) multiplyPanels(w *worker, x product, i, j [2]int) {
	tiles, stride := d.k.f32, 4*x.b.stride()
	if x.b.bf16() {
		tiles = d.k.bf16
	}
	s := split(i[1]-i[0], d.k.rows)
	scratch := w.floats(scratchB, blockK*x.b.width)
	depth := (ceil(x.k, ceil(x.k, blockK)) + 7) &^ 7 // blocks of one size, in eights, as weights are turned
	for p0 := 0; p0 < x.k; p0 += depth {
		kc, load := min(depth, x.k-p0), 0
		if x.add || p0 > 0 {
			load = 1
		}
		a := d.blockOfA(w, x, s, i[0], p0, kc)
		for panel := j[0]; panel < j[1]; panel++ {
			b := x.b.block(&d.k, panel, p0, kc, scratch)
			n0 := panel * x.b.width
			for t, row := 0, i[0]; t < s.parts; t++ {
				m := s.size(t)
				from, rs, cs := a.tile(row-i[0], m)
				if c := x.c[row*x.ldc+n0:]; x.n-n0 >= x.b.width {
					tiles[m](kc, from, rs, cs, b, stride, &c[0], 4*x.ldc, load, 0, 0)
				} else {
					edge := w.floats(scratchC, m*x.b.width)
					copyRows(edge, x.b.width, c, x.ldc, m, x.n-n0)
					tiles[m](kc, from, rs, cs, b, stride, &edge[0], 4*x.b.width, load, 0, 0)
					copyRows(c, x.ldc, edge, x.b.width, m, x.n-n0)
				}
				row += m
			}
		}
	}
}

func copyRows(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	for i := range rows {
		copy(dst[i*ldd:i*ldd+cols], src[i*lds:i*lds+cols])
	}
}

// parting is n rows in as few tiles as will hold them, all of nearly the same height.
type parting struct{ parts, base, extra int }

func split(n, tallest int) parting {
	parts := ceil(n, tallest)
	return parting{parts, n / parts, n % parts}
}

// size is the height of tile t.
func (s parting) size(t int) int {
	if t < s.extra {
		return s.base + 1
	}
	return s.base
}

// blockA is a block of A: as it lies in memory, or tile after tile.
type blockA struct {
	at     []float32
	rs, cs int // in elements
	kc     int
	packed bool
}

// tile is where the tile of m rows from row on starts, and its strides in bytes.
func (a blockA) tile(row, m int) (from *float32, rs, cs int) {
	if a.packed {
		return &a.at[row*a.kc], 4, 4 * m
	}
	return &a.at[row*a.rs], 4 * a.rs, 4 * a.cs
}

// blockOfA gives the rows from i0 on, columns p0..p0+kc-1. A transposed A is packed, since its
// columns are far apart. The rows of a plain one are read where they lie, unless they are part
// of longer rows and read often: rows a power of two apart would fall on the same few sets of
// a cache. One of the two strides is 1.
func (d *Device) blockOfA(w *worker, x product, s parting, i0, p0, kc int) blockA {
	const apart = 16 // between rows, so that no two are a power of two apart
	a := blockA{at: x.a[i0*x.rs+p0*x.cs:], rs: x.rs, cs: x.cs, kc: kc}
	rows := s.parts*s.base + s.extra
	if x.cs == 1 {
		if rows <= fewRows || x.k <= blockK {
			return a
		}
		compact := w.floats(scratchA, rows*(kc+apart))
		copyRows(compact, kc+apart, a.at, x.rs, rows, kc)
		return blockA{at: compact, rs: kc + apart, cs: 1, kc: kc}
	}
	packed := w.floats(scratchA, rows*kc)
	_ = a.at[(kc-1)*a.cs+rows-1]
	for t, row := 0, 0; t < s.parts; t++ {
		m := s.size(t)
		d.k.packTile(kc, &a.at[row], 4*a.cs, &packed[row*kc], m)
		row += m
	}
	return blockA{at: packed, kc: kc, packed: true}
}
