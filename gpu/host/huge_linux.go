package host

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePages asks for large pages behind a slice that has not been touched yet: weights and
// arenas are read as streams, which otherwise miss the address cache every 4 kB.
func hugePages[T any](x []T) []T {
	const worth, page = 4 << 20, 4 << 10
	bytes := len(x) * int(unsafe.Sizeof(*new(T)))
	if bytes < worth {
		return x
	}
	at := unsafe.Pointer(unsafe.SliceData(x))
	if skip := uintptr(at) % page; skip != 0 {
		at, bytes = unsafe.Add(at, page-skip), bytes-int(page-skip)
	}
	_ = unix.Madvise(unsafe.Slice((*byte)(at), bytes/page*page), unix.MADV_HUGEPAGE) // it is advice: nothing is lost without
	return x
}
