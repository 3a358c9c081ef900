package host

import "testing"

// BenchmarkPool is what sharing work costs: two tasks that do nothing.
func BenchmarkPool(b *testing.B) {
	p := newPool(2)
	defer p.close()
	for b.Loop() {
		p.run(2, func(*worker, int) {})
	}
}
