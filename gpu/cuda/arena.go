package cuda

import (
	"fmt"
	"slices"
)

// grain of the arena: what an allocation is rounded up and aligned to, enough for every load
// of a kernel and of cuBLASLt.
const arenaGrain = 256

// arena hands out ranges of one allocation of the driver, so that nothing is allocated while
// the stream is captured and what is left is known. Work on the stream is in order: a
// range may be given out again while earlier work on it still runs.
type arena struct {
	base  uint64
	size  int64
	free  []span           // ascending, apart
	taken map[uint64]int64 // bytes of each range
}

// span is a free range.
type span struct {
	at    uint64
	bytes int64
}

func newArena(base uint64, size int64) *arena {
	return &arena{base: base, size: size, free: []span{{base, size}}, taken: map[uint64]int64{}}
}

// alloc gives the first free range of as many bytes.
func (a *arena) alloc(bytes int64) (uint64, error) {
	need := (max(bytes, 1) + arenaGrain - 1) / arenaGrain * arenaGrain
	for i, s := range a.free {
		if s.bytes < need {
			continue
		}
		if s.bytes == need {
			a.free = slices.Delete(a.free, i, i+1)
		} else {
			a.free[i] = span{s.at + uint64(need), s.bytes - need}
		}
		a.taken[s.at] = need
		return s.at, nil
	}
	return 0, &Error{
		Code: outOfMemory, Name: "CUDA_ERROR_OUT_OF_MEMORY",
		Doing:  fmt.Sprintf("allocate %s: %s of the %s that this device was given are free", size(bytes), size(a.left()), size(a.size)),
		Remedy: "lower the batch, the tokens of a micro-batch or the KV pages, train adapters, or give the device more memory",
	}
}

// release takes a range back and joins it with its neighbours.
func (a *arena) release(at uint64) {
	bytes, ok := a.taken[at]
	if !ok {
		panic("cuda: free of memory that was not allocated")
	}
	delete(a.taken, at)
	i, _ := slices.BinarySearchFunc(a.free, at, func(s span, at uint64) int {
		if s.at < at {
			return -1
		}
		return 1
	})
	a.free = slices.Insert(a.free, i, span{at, bytes})
	if i+1 < len(a.free) && a.free[i].at+uint64(a.free[i].bytes) == a.free[i+1].at {
		a.free[i].bytes += a.free[i+1].bytes
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].at+uint64(a.free[i-1].bytes) == a.free[i].at {
		a.free[i-1].bytes += a.free[i].bytes
		a.free = slices.Delete(a.free, i, i+1)
	}
}

// left is the sum of the free ranges.
func (a *arena) left() int64 {
	n := int64(0)
	for _, s := range a.free {
		n += s.bytes
	}
	return n
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
