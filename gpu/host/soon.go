package host

import (
	"sync/atomic"
	"unsafe"

	"understudy/gpu"
)

// line is the bytes that a processor fetches at a time.
const line = 64

// soon is the keys and values of the next attention. Products of few rows fetch them beside
// their weight: a decode's attention reads much and multiplies little, its products multiply
// much.
type soon struct {
	pages []*float32 // in the order of their use
	bytes int        // of a page
	next  atomic.Int64
}

// take gives where the next lines are, and how far apart; otherwise when none is left. Lines
// beyond the end of a page are those that follow it in memory, often the next page.
func (s *soon) take(lines int, otherwise unsafe.Pointer) (at unsafe.Pointer, step int) {
	if len(s.pages) == 0 {
		return otherwise, 0
	}
	from := int(s.next.Add(int64(lines*line))) - lines*line
	if from/s.bytes >= len(s.pages) {
		return otherwise, 0
	}
	return unsafe.Add(unsafe.Pointer(s.pages[from/s.bytes]), from%s.bytes), line
}

// panels is how many panels, each with so many lines, fetch a page, no more than there are; all
// when nothing is left to fetch.
func (s *soon) panels(most, lines int) int {
	if lines == 0 || int(s.next.Load()) >= len(s.pages)*s.bytes {
		return most
	}
	return min(most, max(1, s.bytes/(lines*line)))
}

// FetchPages lets the products that follow fetch p's keys and values.
func (d *Device) FetchPages(p gpu.PagedAttention) {
	s, size := &d.soon, p.G*p.D*chunk
	s.forget()
	if !d.k.soon {
		return
	}
	s.bytes = 4 * size
	var before []int32
	for _, q := range pagedQueries(p) {
		for _, arena := range [][]float32{floats(p.K), floats(p.V)} {
			for i, page := range q.pages {
				if i >= len(before) || before[i] != page {
					s.pages = append(s.pages, &arena[int(page)*size])
				}
			}
		}
		before = q.pages
	}
}

// forget ends the fetching, and keeps no memory alive.
func (s *soon) forget() {
	clear(s.pages)
	s.pages = s.pages[:0]
	s.next.Store(0)
}
