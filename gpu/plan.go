package gpu

import "fmt"

// rowBuffer is a buffer to be, and how many elements of it, of which type, a row takes.
type rowBuffer struct {
	buffer *Buffer
	perRow int
	kind   DType
}

// placed is a buffer that has its length.
type placed struct {
	buffer *Buffer
	kind   DType
	n      int
}

// words is how much of a memory of 4 bytes an element it takes, in whole cache lines.
func (b placed) words() int { return aligned((b.n*b.kind.Size() + 3) / 4) }

// plan collects buffers and allocates them at once, so that memory is known,
// and refused, before the first step.
type plan struct {
	floats, ints []placed
	total        [2]int
}

// add plans r rows of each buffer.
func (p *plan) add(rows int, list ...rowBuffer) {
	for _, b := range list {
		p.addOf(b.kind, rows*b.perRow, b.buffer)
	}
}

// addOf plans n elements of a float type.
func (p *plan) addOf(kind DType, n int, buffers ...*Buffer) {
	for _, b := range buffers {
		p.floats = append(p.floats, placed{b, kind, n})
		p.total[0] += p.floats[len(p.floats)-1].words()
	}
}

// addInts plans n indices.
func (p *plan) addInts(n int, buffers ...*Buffer) {
	for _, b := range buffers {
		p.ints = append(p.ints, placed{b, I32, n})
		p.total[1] += aligned(n)
	}
}

// bytes is what the plan takes.
func (p *plan) bytes() int64 { return int64(p.total[0]+p.total[1]) * 4 }

// allocate gives every buffer its place. What names the memory in errors.
func (p *plan) allocate(dev Device, what string) (floats, ints Buffer, err error) {
	if floats, err = dev.Alloc(F32, p.total[0]); err == nil {
		if ints, err = dev.Alloc(I32, p.total[1]); err != nil {
			dev.Free(floats)
		}
	}
	if err != nil {
		return floats, ints, fmt.Errorf("allocate %.1f MiB for %s: %w", float64(p.bytes())/(1<<20), what, err)
	}
	place(floats, p.floats)
	place(ints, p.ints)
	return floats, ints, nil
}

func place(memory Buffer, list []placed) {
	at := 0
	for _, b := range list {
		*b.buffer = memory.Slice(at, at+b.words())
		b.buffer.Type, b.buffer.Off, b.buffer.Len = b.kind, b.buffer.Off*4/b.kind.Size(), b.n
		at += b.words()
	}
}

// aligned rounds up to whole cache lines.
func aligned(n int) int { return (n + lane - 1) / lane * lane }
