package host

import (
	"slices"
	"testing"
	"unsafe"

	"understudy/gpu"
)

// Pages are fetched in the order of their use, those that sequences share once, and none after
// the attention they were meant for.
func TestFetchPages(t *testing.T) {
	t.Parallel()
	d := newDevice(t, "go", 1)
	d.k.soon = true
	const pages, size = 4, 16 * chunk
	alloc := func(kind gpu.DType, n int) gpu.Buffer {
		b, err := d.Alloc(kind, n)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	ints := func(list ...int32) gpu.Buffer {
		b := alloc(gpu.I32, len(list))
		d.UploadInts(b, list)
		return b
	}
	p := gpu.PagedAttention{
		Heads: gpu.Heads{H: 1, G: 1, D: 16}, K: alloc(gpu.F32, pages*size), V: alloc(gpu.F32, pages*size),
		Tables: ints(2, 0, 2, 3), P: 2, Sequences: ints(1, 0), Positions: ints(20, 31), Q: alloc(gpu.F32, 32), Out: alloc(gpu.F32, 32),
	}
	d.FetchPages(p)
	page := func(arena gpu.Buffer, i int) unsafe.Pointer { return unsafe.Pointer(&floats(arena)[i*size]) }
	none := page(p.K, 1)
	var got []unsafe.Pointer
	for at, step := d.soon.take(16, none); step != 0; at, step = d.soon.take(16, none) {
		got = append(got, at)
	}
	want := []unsafe.Pointer{page(p.K, 2), page(p.K, 0), page(p.V, 2), page(p.V, 0), page(p.K, 3), page(p.V, 3)}
	if !slices.Equal(got, want) {
		t.Errorf("pages at %v are fetched, not %v", got, want)
	}
	d.FetchPages(p)
	if at, step := d.soon.take(4, none); at != page(p.K, 2) || step != 64 {
		t.Errorf("4 lines at %v, %d bytes apart; want the first of the first page, 64 apart", at, step)
	}
	if at, _ := d.soon.take(4, none); at != unsafe.Add(page(p.K, 2), 4*64) {
		t.Errorf("the next 4 lines at %v do not follow", at)
	}
	d.AttendPaged(p)
	if at, step := d.soon.take(4, none); at != none || step != 0 {
		t.Errorf("lines at %v are fetched after the attention", at)
	}
}
