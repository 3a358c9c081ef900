package cuda

import (
	"math"
	"unsafe"

	"understudy/gpu"
)

// most arguments of a kernel.
const maxArgs = 22

// kind says what a command does.
type kind uint64

const (
	launching   kind = iota // a kernel
	uploading               // args: device, pinned host, bytes
	downloading             // args: pinned host, device, bytes
	copying                 // args: to, from, bytes
	filling                 // args: device, byte, bytes
	product                 // a cuBLASLt product: fn is its plan's index, args: y, x, w
)

// command is one thing for the stream. It has no padding and no Go pointer: two lists of
// commands with the same bytes do the same.
type command struct {
	kind
	fn          uint64
	grid, block [3]uint32
	n           uint64 // arguments
	args        [maxArgs]uint64
}

// bytes is the memory of a list, for comparing and hashing.
func bytesOf(list []command) []byte {
	if len(list) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(command{})))
}

// dim is a grid's or a block's size, x first.
type dim [3]uint32

func line(n int) dim          { return dim{uint32(max(n, 1)), 1, 1} }
func plane(x, y int) dim      { return dim{uint32(max(x, 1)), uint32(max(y, 1)), 1} }
func space(x, y, z int) dim   { return dim{uint32(max(x, 1)), uint32(max(y, 1)), uint32(max(z, 1))} }
func ceil(n, each int) int    { return (n + each - 1) / each }
func i32(n int) uint64        { return uint64(uint32(int32(n))) }
func i64(n int) uint64        { return uint64(n) }
func f32(x float32) uint64    { return uint64(math.Float32bits(x)) }
func ptr(b gpu.Buffer) uint64 { return address(b) }

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// launch appends a kernel's launch. Arguments are those of the kernel, in order: ptr, i32,
// i64, f32.
func (d *Device) launch(name string, grid, block dim, args ...uint64) {
	fn, ok := d.kernels[name]
	if !ok {
		d.refuse(&Error{Name: "CUDA_ERROR_NOT_FOUND", Doing: "launch " + name + ": this build has no such kernel"})
		return
	}
	c := command{kind: launching, fn: fn, grid: grid, block: block, n: uint64(len(args))}
	copy(c.args[:], args)
	d.push(c)
}

// last is the command that stands before so many others at the end of the list, if it launches this kernel and has
// not gone to the thread yet.
func (d *Device) last(name string, before int) *command {
	i := len(d.list) - 1 - before
	if i < 0 || d.list[i].kind != launching || d.list[i].fn != d.kernels[name] {
		return nil
	}
	return &d.list[i]
}

// reach is the memory that a buffer is.
func reach(b gpu.Buffer) span { return span{address(b), int64(bytesIn(b))} } //nolint:gosec // of a card

// clash says that memory which one of two operations writes is also the other's, which reads or writes it. Such two
// run in turn: of one kernel some blocks would be at the second while others are at the first.
func clash(written []span, others ...span) bool {
	for _, w := range written {
		for _, o := range others {
			if w.at < o.at+uint64(o.bytes) && o.at < w.at+uint64(w.bytes) { //nolint:gosec // not negative
				return true
			}
		}
	}
	return false
}

// push appends a command and hands the list to the GPU's thread when it is long.
func (d *Device) push(c command) {
	d.list = append(d.list, c)
	if len(d.list) >= longList {
		d.flush()
	}
}
