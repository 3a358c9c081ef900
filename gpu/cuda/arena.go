package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"understudy/gpu"
)

const (
	// grain is what an allocation is rounded up and aligned to: enough for every load of a
	// kernel and of cuBLASLt.
	grain = 256
	// regionBytes is what is asked of the driver at least, when that much is free.
	regionBytes = 64 << 20
)

// arena hands out ranges of few, large allocations of the driver. Work on the stream is in
// order: a range may be given out again while earlier work on it still runs. It grows
// between operations only, never while the stream is captured.
type arena struct {
	regions []*region
	taken   map[uint64]taken
	size    int64 // of all regions
}

// region is one allocation of the driver.
type region struct {
	base uint64
	size int64
	free []span // ascending, apart
}

// span is a free range.
type span struct {
	at    uint64
	bytes int64
}

// taken is a range in use.
type taken struct {
	in    *region
	bytes int64
}

func (r *region) idle() bool { return len(r.free) == 1 && r.free[0].bytes == r.size }

// add takes a region in.
func (a *arena) add(base uint64, size int64) {
	a.regions = append(a.regions, &region{base: base, size: size, free: []span{{base, size}}})
	a.size += size
}

// rounded is what an allocation really takes.
func rounded(bytes int64) int64 { return (max(bytes, 1) + grain - 1) / grain * grain }

// alloc gives the first free range of as many bytes, if there is one.
func (a *arena) alloc(bytes int64) (uint64, bool) {
	need := rounded(bytes)
	for _, r := range a.regions {
		for i, s := range r.free {
			if s.bytes < need {
				continue
			}
			if s.bytes == need {
				r.free = slices.Delete(r.free, i, i+1)
			} else {
				r.free[i] = span{s.at + uint64(need), s.bytes - need}
			}
			a.taken[s.at] = taken{r, need}
			return s.at, true
		}
	}
	return 0, false
}

// release takes a range back and joins it with its neighbours.
func (a *arena) release(at uint64) {
	t, ok := a.taken[at]
	if !ok {
		panic("cuda: free of memory that was not allocated")
	}
	delete(a.taken, at)
	free := t.in.free
	i := slices.IndexFunc(free, func(s span) bool { return s.at > at })
	if i < 0 {
		i = len(free)
	}
	free = slices.Insert(free, i, span{at, t.bytes})
	for _, j := range []int{i, i - 1} { // with the next, then with the one before
		if j >= 0 && j+1 < len(free) && free[j].at+uint64(free[j].bytes) == free[j+1].at {
			free[j].bytes += free[j+1].bytes
			free = slices.Delete(free, j+1, j+2)
		}
	}
	t.in.free = free
}

// allocate gives n elements as they are.
func (d *Device) allocate(t gpu.DType, n int) (gpu.Buffer, error) {
	bytes := int64(n) * int64(t.Size())
	at, ok := d.arena.alloc(bytes)
	if !ok {
		if err := d.grow(bytes); err != nil {
			return gpu.Buffer{}, err
		}
		at, _ = d.arena.alloc(bytes)
	}
	return gpu.Buffer{Memory: &memory{at, bytes}, Type: t, Len: n}, nil
}

// grow asks the driver for a region that holds as many bytes; when there is none, idle ones
// are given back first.
func (d *Device) grow(bytes int64) error {
	need := rounded(bytes)
	want := max(need, regionBytes)
	if d.Memory > 0 {
		want = max(need, min(want, d.Memory-d.arena.size))
	}
	err := d.region(want)
	if !isCode(err, outOfMemory) {
		return err
	}
	if err := d.shrink(); err != nil {
		return err
	}
	return d.region(need)
}

const lowerMemory = "lower the batch, the tokens of a micro-batch or the memory for keys and values, keep less with checkpointing, or train adapters"

// region takes memory of the driver into the arena.
func (d *Device) region(bytes int64) error {
	if d.Memory > 0 && d.arena.size+bytes > d.Memory {
		return &Error{
			Code: outOfMemory, Name: "CUDA_ERROR_OUT_OF_MEMORY", Remedy: lowerMemory,
			Doing: fmt.Sprintf("allocate %s: %s of the %s that this device was given are in use", size(bytes), size(d.arena.size), size(d.Memory)),
		}
	}
	return d.thread.do(func() error {
		lib := d.thread.driver
		var base uint64
		if err := lib.call("allocate "+size(bytes), lib.memAlloc, uintptr(unsafe.Pointer(&base)), uintptr(bytes)); err != nil {
			return lib.explain(err)
		}
		d.arena.add(base, bytes)
		return nil
	})
}

// explain adds to a lack of memory how much there is.
func (d *driver) explain(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != outOfMemory {
		return err
	}
	var free, total uintptr
	if d.call("ask for free memory", d.memInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total))) == nil {
		e.Doing += fmt.Sprintf(": %s of the card's %s are free", size(int64(free)), size(int64(total)))
	}
	e.Remedy = lowerMemory
	return e
}

// shrink gives idle regions back, once nothing that was ordered can use them.
func (d *Device) shrink() error {
	if !slices.ContainsFunc(d.arena.regions, (*region).idle) {
		return nil
	}
	d.flush()
	return d.thread.do(func() error {
		lib := d.thread.driver
		err := lib.call("wait for the device", lib.streamSync, d.thread.stream)
		d.arena.regions = slices.DeleteFunc(d.arena.regions, func(r *region) bool {
			if err != nil || !r.idle() {
				return false
			}
			d.arena.size -= r.size
			err = lib.call("free memory", lib.memFree, uintptr(r.base))
			return true
		})
		return err
	})
}

// size is a number of bytes for people.
func size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", bytes)
}
