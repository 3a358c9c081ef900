package host

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"

	"understudy/gpu"
)

// Options of a device. The zero value is the fastest kernels of this machine in Exact mode
// on as many threads as GOMAXPROCS.
type Options struct {
	Mode    gpu.Mode
	Threads int    // 0: GOMAXPROCS
	Kernels string // "avx512", "avx2" or "go"; "": the fastest that this machine has
	// Memory is the most bytes that Alloc gives out at a time, packed weights aside; 0: what
	// this machine has, where that is known. Beyond it Go would end the program.
	Memory int64
}

// Device is a CPU.
type Device struct {
	mode gpu.Mode
	k    kernels
	pool *pool

	budget, allocated int64
	slab              []float32 // what is left of the memory of panels
	soon              soon
}

var (
	_ gpu.Device  = (*Device)(nil)
	_ gpu.Fetcher = (*Device)(nil)
)

// New makes a device. Close ends its threads.
func New(o Options) (*Device, error) {
	threads := o.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if threads < 1 {
		return nil, fmt.Errorf("host device: %d threads: give 1 or more, or 0 for all", o.Threads)
	}
	all := available()
	var names []string
	for _, k := range all {
		if o.Kernels == "" || o.Kernels == k.name {
			return &Device{mode: o.Mode, k: k, pool: newPool(threads), budget: cmp.Or(o.Memory, Memory())}, nil
		}
		names = append(names, k.name)
	}
	return nil, fmt.Errorf("host device: no kernels %q on this machine: it has %s", o.Kernels, strings.Join(names, ", "))
}

// Kernels lists the kernels of this machine, the fastest first: the values of
// Options.Kernels.
func Kernels() []string {
	var names []string
	for _, k := range available() {
		names = append(names, k.name)
	}
	return names
}

// Close ends the threads of d, which is not used afterwards.
func (d *Device) Close() { d.pool.close() }

// Name is for people: "host avx512, 2 threads".
func (d *Device) Name() string {
	return fmt.Sprintf("host %s, %d threads", d.k.name, d.Threads())
}

// Threads is how many work at an operation, the caller's among them.
func (d *Device) Threads() int { return len(d.pool.workers) }

// Mode is what New was asked for.
func (d *Device) Mode() gpu.Mode { return d.mode }
