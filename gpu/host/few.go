package host

import (
	"unsafe"

	"understudy/gpu"
	"understudy/gpu/half"
)

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
// more. That pays where B comes from memory, less where C does, too.
func depthOf(n, k int) int {
	const large, wide = 100_000, 4096
	if n*k < large {
		return max(1, k)
	}
	depth := 192
	if n > wide {
		depth = 288
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
	p.depth = depthOf(p.n, p.k)
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
		p.packPairs(unsafe.Slice((*uint32)(unsafe.Pointer(&dst[0])), len(dst)), m, n0, n, i, kc)
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

// packPairs writes words of two rows of a panel, kc rows from row from on.
func (p panels) packPairs(dst []uint32, m matrix, n0, n, from, kc int) {
	row := make([]uint16, kc+kc%2)
	for j := range n {
		m.narrow(row[:kc], (n0+j)*p.k+from)
		for i := 0; i < kc; i += 2 {
			dst[i/2*chunk+j] = uint32(row[i]) | uint32(row[i+1])<<16
		}
	}
}
