package host

import "math"

// What a row may not see has the weight 0, so that many rows can be multiplied at a time. That
// adds nothing to them as long as it is finite; 0 times what is not is NaN, and then each row
// is multiplied by what it sees alone.

// finite says that no element is infinite or NaN. It may deny it of elements whose squares
// have an infinite sum.
func (d *Device) finite(x []float32) bool {
	return float64(d.k.dot(len(x), &x[0], &x[0])) < math.Inf(1)
}

// finiteRows is finite of the rows of B, by the sum of 0 times each.
func (d *Device) finiteRows(w *worker, x smallProduct) bool {
	sums := w.floats(scratchC, x.n+1)
	sums[x.n] = 0
	d.multiplySmall(smallProduct{m: 1, n: x.n, k: x.k, a: sums[x.n:], b: x.b, ldb: x.ldb, c: sums, ldc: x.n})
	return d.finite(sums[:x.n])
}

// part is rows i[0]..i[1]-1 of a product, summed over k[0]..k[1]-1 only.
func (x smallProduct) part(i, k [2]int) smallProduct {
	x.a, x.b, x.c = x.a[i[0]*x.rs+k[0]*x.cs:], x.b[k[0]*x.ldb:], x.c[i[0]*x.ldc:]
	x.m, x.k = i[1]-i[0], k[1]-k[0]
	return x
}

// multiplySeen is a product whose row i is summed over k = seen(i)[0]..seen(i)[1]-1 only.
func (d *Device) multiplySeen(x smallProduct, seen func(i int) [2]int) {
	for from := 0; from < x.m; {
		end := from + 1
		for end < x.m && seen(end) == seen(from) {
			end++
		}
		d.multiplySmall(x.part([2]int{from, end}, seen(from)))
		from = end
	}
}
