package host_test

import (
	"slices"
	"sync"
	"testing"

	"understudy/audit/leaktest"
	"understudy/gpu"
	"understudy/gpu/devicetest"
	"understudy/gpu/host"
)

// The number of threads changes no bit of a training step's operations.
func TestThreadsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, kernels := range host.Kernels() {
		var want []float32
		for _, threads := range []int{1, 2, 5} {
			p := newPair(t, kernels, threads)
			got := devicetest.EveryOperation(p)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d threads and 1 thread give different bits", kernels, threads)
			}
		}
	}
}

// Every closed device has ended its threads.
func TestMain(m *testing.M) { leaktest.Main(m) }

// Each goroutine may have a device of its own, and a closed device can be closed again.
func TestDevicesSideBySide(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			d, err := host.New(host.Options{Threads: 3})
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			x, err := d.Alloc(gpu.F32, 100000)
			if err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				d.AddScaled(x, 1, x)
				d.Add(x, x, x)
			}
			d.Close()
		})
	}
	all.Wait()
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options host.Options
		want    string
		reason  string
	}{
		{host.Options{Kernels: "sse"}, `host device: no kernels "sse" on this machine: it has `, "names what there is"},
		{host.Options{Threads: -1}, "host device: -1 threads: give 1 or more, or 0 for all", "nobody would work"},
	} {
		d, err := host.New(c.options)
		if d != nil || err == nil || len(err.Error()) < len(c.want) || err.Error()[:len(c.want)] != c.want {
			t.Errorf("New(%+v) = %v, %v, want error %q... (%s)", c.options, d, err, c.want, c.reason)
		}
	}
}

// Memory beyond the budget is refused by size, and can be had again once it is free.
func TestBudget(t *testing.T) {
	t.Parallel()
	d, err := host.New(host.Options{Memory: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b, err := d.Alloc(gpu.F32, 200)
	if err != nil {
		t.Fatal(err)
	}
	const want = "host device: allocate 204 bytes: only 200 of its 1000 are free"
	if _, err := d.Alloc(gpu.BF16, 102); err == nil || err.Error() != want {
		t.Errorf("allocation beyond the budget: %v, want %s", err, want)
	}
	if _, err := d.Map(gpu.F32, make([]byte, 4096)); err != nil {
		t.Errorf("mapped memory counted against the budget: %v", err)
	}
	d.Free(b)
	if _, err := d.Alloc(gpu.I32, 250); err != nil {
		t.Errorf("after Free: %v", err)
	}
}

// Data that is not aligned is copied, and read the same.
func TestMapUnaligned(t *testing.T) {
	t.Parallel()
	d, err := host.New(host.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data := make([]byte, 4*3+1)
	copy(data[1:], "\x00\x00\x80\x3f") // 1
	copy(data[9:], "\x00\x00\x00\xc0") // -2
	b, err := d.Map(gpu.F32, data[1:])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := make([]float32, 3), []float32{1, 0, -2}; d.Download(got, b) != nil || !slices.Equal(got, want) {
		t.Errorf("mapped %v, want %v", got, want)
	}
	if _, err := d.Map(gpu.F32, data[:6]); err == nil {
		t.Error("6 bytes were mapped as float32")
	}
}
