package host

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"understudy/gpu"
)

// ProcessTime is the processor time of all threads of the program. Rates by it don't fall
// when other programs take the processor.
func ProcessTime(tb testing.TB) time.Duration {
	tb.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// Probe does what bounds a decode: it reads memory that is in no cache, and multiplies few
// rows by a packed weight that is in one.
type Probe struct {
	d      *Device
	memory []float32
	m      int
	x, y   []float32
	weight panels
}

// NewProbe makes a probe of y (m,n) = x (m,k)·wᵀ with weights of this type.
func NewProbe(d *Device, m, n, k int, kind gpu.DType) *Probe {
	p := &Probe{d: d, memory: hugePages(make([]float32, 128<<20))} // more than the largest cache seen
	for i := range p.memory {
		p.memory[i] = 1
	}
	p.m, p.x, p.y = m, random(m*k, 1), make([]float32, m*n)
	p.weight = newPanels(d, matrix{kind: kind, f32: random(n*k, 2), f16: make([]uint16, n*k), rows: n, cols: k}, false, nil)
	return p
}

// Read reads all the memory with all threads and returns its bytes.
func (p *Probe) Read() float64 {
	p.d.pool.run(len(p.memory)>>20, func(_ *worker, task int) { p.d.k.max(1<<20, &p.memory[task<<20]) })
	return 4 * float64(len(p.memory))
}

// Warm brings the weight into the cache.
func (p *Probe) Warm() { p.d.multiplyFew(p.y, p.x, p.m, p.weight) }

// Multiply multiplies 16 times and returns its floating-point operations.
func (p *Probe) Multiply() float64 {
	const times = 16
	for range times {
		p.d.multiplyFew(p.y, p.x, p.m, p.weight)
	}
	return times * 2 * float64(p.m) * float64(p.weight.n) * float64(p.weight.k)
}
