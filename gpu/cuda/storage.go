package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"understudy/gpu"
	"understudy/gpu/half"
)

// memory is an allocation from the arena.
type memory struct {
	at    uint64
	bytes int64
}

// Bytes is the size of the allocation.
func (m *memory) Bytes() int64 { return m.bytes }

// address is where a buffer's first element lies; 0 for none.
func address(b gpu.Buffer) uint64 {
	if b.None() {
		return 0
	}
	return b.Memory.(*memory).at + uint64(b.Off*b.Type.Size())
}

func bytesIn(b gpu.Buffer) uint64 { return uint64(b.Len * b.Type.Size()) }

// stagingBytes is the pinned memory through which everything goes to and from the card.
const stagingBytes = 8 << 20

// staging is pinned memory of the host: what an asynchronous copy touches may not be Go's.
// It is filled from the start after each wait.
type staging struct {
	memory []byte
	used   int
}

func (s *staging) open(d *driver) error {
	var at unsafe.Pointer
	if err := d.call(fmt.Sprintf("pin %s of the host", size(stagingBytes)), d.hostAlloc,
		uintptr(unsafe.Pointer(&at)), stagingBytes, 0); err != nil {
		return err
	}
	s.memory = unsafe.Slice((*byte)(at), stagingBytes)
	return nil
}

func (s *staging) close(d *driver) {
	if s.memory != nil {
		_ = d.call("free pinned memory", d.hostFree, uintptr(unsafe.Pointer(&s.memory[0])))
		s.memory = nil
	}
}

// take gives at most n bytes, a multiple of 4, or nothing when all is in use.
func (s *staging) take(n int) []byte {
	n = min(n, len(s.memory)-s.used)
	piece := s.memory[s.used : s.used+n]
	s.used += (n + 63) / 64 * 64
	return piece
}

func hostAddress(piece []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&piece[0]))) }

// Alloc gives n zeroed elements of the arena.
func (d *Device) Alloc(t gpu.DType, n int) (gpu.Buffer, error) {
	if n < 0 || n > math.MaxInt/t.Size() {
		return gpu.Buffer{}, fmt.Errorf("cuda device: allocate %d elements of %d bytes", n, t.Size())
	}
	b, err := d.allocate(t, n)
	if err != nil {
		return b, named(err)
	}
	d.Zero(b)
	return b, nil
}

// Map copies data to the card.
func (d *Device) Map(t gpu.DType, data []byte) (gpu.Buffer, error) {
	n := len(data) / t.Size()
	if n*t.Size() != len(data) {
		return gpu.Buffer{}, fmt.Errorf("cuda device: map %d bytes as elements of %d", len(data), t.Size())
	}
	b, err := d.allocate(t, n)
	if err != nil {
		return b, named(err)
	}
	d.upload(b, data)
	return b, d.Sync()
}

// Free gives the memory back; what was ordered before still sees it.
func (d *Device) Free(b gpu.Buffer) {
	if b.None() {
		return
	}
	d.indicesChanged(b, nil)
	m := b.Memory.(*memory)
	for _, w := range d.weights[m] {
		d.arena.release(address(w.rounded))
	}
	delete(d.weights, m)
	d.arena.release(m.at)
}

// Upload copies src into dst, rounded where that is BF16.
func (d *Device) Upload(dst gpu.Buffer, src []float32) {
	dst = dst.Slice(0, len(src))
	if !d.only("Upload", []gpu.Buffer{dst}, gpu.F32, gpu.BF16) {
		return
	}
	if dst.Type == gpu.F32 {
		d.upload(dst, rawBytes(src))
		return
	}
	data := make([]byte, 0, 2*len(src))
	for _, x := range src {
		data = binary.LittleEndian.AppendUint16(data, half.ToBF16(x))
	}
	d.upload(dst, data)
}

// UploadInts copies src into dst, which is I32.
func (d *Device) UploadInts(dst gpu.Buffer, src []int32) {
	dst = dst.Slice(0, len(src))
	if d.only("UploadInts", []gpu.Buffer{dst}, gpu.I32) {
		d.indicesChanged(dst, src)
		d.upload(dst, rawBytes(src))
	}
}

// rawBytes is the memory of x, whose elements have no padding.
func rawBytes[T float32 | int32 | draw | drawn](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), int(unsafe.Sizeof(one))*len(x))
}

// upload copies data into pinned memory, now, and from there to the card, in its turn.
func (d *Device) upload(dst gpu.Buffer, data []byte) {
	to := address(dst)
	for len(data) > 0 {
		piece := d.host.take(len(data))
		if len(piece) == 0 {
			if err := d.wait("copy to the device"); err != nil {
				d.refuse(err)
				return
			}
			continue
		}
		copy(piece, data)
		d.push(command{kind: uploading, n: 3, args: [maxArgs]uint64{to, hostAddress(piece), uint64(len(piece))}})
		to, data = to+uint64(len(piece)), data[len(piece):]
	}
}

// Download copies from src, widened, and waits.
func (d *Device) Download(dst []float32, src gpu.Buffer) error {
	src = src.Slice(0, len(dst))
	if src.Type == gpu.I32 {
		panic("cuda: floats wanted of a buffer of indices")
	}
	if src.Type == gpu.F32 {
		return d.download(rawBytes(dst), address(src))
	}
	const most = stagingBytes / 8
	for from := 0; from < len(dst); from += most {
		to := min(len(dst), from+most)
		wide, err := d.scratchOf(scratchWide, to-from)
		if err != nil {
			return err
		}
		d.convert(wide, src.Slice(from, to))
		if err := d.download(rawBytes(dst[from:to]), address(wide)); err != nil {
			return err
		}
	}
	return nil
}

// download copies bytes of the card and waits. A long list goes ahead of it, so that it is the same list
// however much is copied.
func (d *Device) download(dst []byte, from uint64) error {
	if len(d.list) >= shortList {
		d.flush()
	}
	for {
		piece := d.host.take(len(dst))
		if len(piece) > 0 {
			d.push(command{kind: downloading, n: 3, args: [maxArgs]uint64{hostAddress(piece), from, uint64(len(piece))}})
		}
		if err := d.wait("copy from the device"); err != nil {
			return err
		}
		copy(dst, piece)
		if from, dst = from+uint64(len(piece)), dst[len(piece):]; len(dst) == 0 {
			return nil
		}
	}
}

// Sync waits for all operations and gives the first failure since the last.
func (d *Device) Sync() error { return d.wait("wait for the device") }

// flush hands the list to the thread.
func (d *Device) flush() {
	if len(d.list) == 0 {
		return
	}
	list := d.list
	d.thread.work <- func() {
		d.thread.run(list)
		select {
		case d.spare <- list[:0]:
		default:
		}
	}
	select {
	case d.list = <-d.spare:
	default:
		d.list = nil
	}
}

// wait hands over the list and waits until the stream is empty.
func (d *Device) wait(doing string) error {
	d.flush()
	err := d.thread.do(func() error { return d.thread.wait(doing) })
	d.host.used = 0
	d.warnOfGraphs()
	if refused := d.refused; refused != nil {
		d.refused = nil
		err = refused
	}
	if err != nil {
		d.planned, d.uploaded = pagePlan{}, nil // they may not have been written
		d.rewrite()
		return named(err)
	}
	return nil
}

// Scratch buffers, each for one purpose, which grow as they are needed.
const (
	scratchWide = iota // what Download widens
	scratchSums        // partial sums
	scratchA           // the factors of a product, rounded
	scratchB
	scratchDelta  // attention's backward: Σ out·dout of each row and head
	scratchPlan   // which rows share pages
	scratchSplits // attention's sums of each split of keys
	scratchDraws  // how tokens are drawn, and which they are
	scratches
)

// scratchOf is n floats that hold nothing.
func (d *Device) scratchOf(which, n int) (gpu.Buffer, error) {
	if b := d.scratch[which]; b.Len >= n {
		return b.Slice(0, n), nil
	}
	d.Free(d.scratch[which])
	d.scratch[which] = gpu.Buffer{}
	b, err := d.allocate(gpu.F32, n)
	if err != nil {
		return b, fmt.Errorf("cuda device: scratch: %w", err)
	}
	d.scratch[which] = b
	return b, nil
}

// growingScratch is scratchOf for decode steps: it grows to powers of two, or to most, so that its place,
// which graphs hold, rarely changes.
func (d *Device) growingScratch(which, n, most int) (gpu.Buffer, error) {
	if d.scratch[which].Len < n {
		if _, err := d.scratchOf(which, grown(n, most)); err != nil {
			return gpu.Buffer{}, err
		}
	}
	return d.scratchOf(which, n)
}

// grown is how many elements a growingScratch of n has.
func grown(n, most int) int { return max(n, min(powerOfTwo(n), most)) }
