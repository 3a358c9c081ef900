package host

import (
	"time"

	"understudy/gpu"
)

// best is the shortest time of a few runs of f, in seconds.
func best(f func()) float64 {
	f()
	shortest := time.Hour
	for range 10 {
		start := time.Now()
		f()
		shortest = min(shortest, time.Since(start))
	}
	return shortest.Seconds()
}

// Bandwidth is the bytes per second at which all threads read memory that is in no cache.
func Bandwidth(d *Device) float64 {
	const words = 128 << 20 // 512 MB, more than the largest cache seen (300 MB)
	x := make([]float32, words)
	for i := range x {
		x[i] = 1
	}
	return 4 * words / best(func() {
		d.pool.run(words>>20, func(_ *worker, task int) { d.k.max(1<<20, &x[task<<20]) })
	})
}

// ProductRate is the floating-point operations per second of y (m,n) = x (m,k)·wᵀ with w
// packed, on all threads.
func ProductRate(d *Device, m, n, k int, kind gpu.DType) float64 {
	x := product{m: m, n: n, k: k, a: random(m*k, 1), rs: k, cs: 1, c: make([]float32, m*n), ldc: n}
	x.b = operand{matrix: matrix{kind: kind, f32: random(n*k, 2), f16: make([]uint16, n*k), rows: n, cols: k}, transposed: true, width: d.k.width}
	x.b.pack(&d.k, d.pool)
	return 2 * float64(m) * float64(n) * float64(k) / best(func() { d.multiply(x) })
}
