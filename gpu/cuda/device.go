package cuda

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"unsafe"

	"understudy/gpu"
)

// Options of a device. The zero value is the first card in Exact mode with products in
// float32.
type Options struct {
	Mode   gpu.Mode
	Number int // which card, from 0, in the driver's order (CUDA_VISIBLE_DEVICES)
	// Products is what the inputs of products and of attention are rounded to, and how the KV
	// arena holds keys and values: F32, or BF16 for the tensor cores. Sums are in float32 either
	// way, and so are activations and gradients.
	Products gpu.DType
	// Memory is the most bytes that are taken of the card; 0: all that is free.
	Memory int64
	// Libraries are folders to look for the driver and cuBLASLt in, before all others.
	Libraries []string
	// NoGraphs launches every kernel by itself: for debugging.
	NoGraphs bool
}

// Device is an NVIDIA GPU. Make it with New.
type Device struct {
	Options
	name       string
	thread     *thread
	arena      arena
	kernels    map[string]uint64 // functions by name
	list       []command
	spare      chan []command // lists to be used again
	host       staging
	scratch    [scratches]gpu.Buffer
	plans      map[shape]int // of products, see blas.plan
	weights    map[*memory][]*weight
	processors int // of the card
	planned    pagePlan
	uploaded   []indices // that are still as they were uploaded
	refused    error     // the first failure that no driver has reported
	closed     bool
}

var _ gpu.Device = (*Device)(nil)

// New opens the driver, takes the card and its memory, and loads the kernels.
func New(o Options) (_ *Device, err error) {
	lib, err := openDriver(o.Libraries)
	if err != nil {
		return nil, named(err)
	}
	d := &Device{
		Options: o, thread: startThread(lib),
		arena: arena{taken: map[uint64]taken{}}, kernels: map[string]uint64{}, plans: map[shape]int{}, weights: map[*memory][]*weight{}, spare: make(chan []command, 4),
	}
	err = d.thread.do(d.setUp)
	if err == nil && o.Mode == gpu.Fast {
		err = d.setUpBLAS()
	}
	if err != nil {
		d.Close()
		return nil, named(err)
	}
	return d, nil
}

// setUp runs on the thread.
func (d *Device) setUp() error {
	t := d.thread
	cards, err := t.driver.cards()
	switch {
	case err != nil:
		return err
	case len(cards) == 0:
		return fmt.Errorf("%w: the driver finds no card", ErrNoDevice)
	case d.Number < 0 || d.Number >= len(cards):
		return fmt.Errorf("card %d: this machine has %d, counted from 0", d.Number, len(cards))
	}
	card := cards[d.Number]
	d.name, d.processors = card.Name, card.Processors
	if err := card.Usable(); err != nil {
		return err
	}
	if err := t.open(card); err != nil {
		return err
	}
	if err := d.load(); err != nil {
		return err
	}
	t.graphs = graphs{seed: maphash.MakeSeed(), seen: map[uint64]bool{}, kept: map[uint64]*graph{}, names: t.graphs.names, off: d.NoGraphs}
	return d.host.open(t.driver)
}

// setUpBLAS opens cuBLASLt for Fast mode.
func (d *Device) setUpBLAS() error {
	workspace, err := d.allocate(gpu.F32, workspaceBytes/4)
	if err != nil {
		return fmt.Errorf("workspace of cuBLASLt: %w", err)
	}
	return d.thread.do(func() (err error) {
		d.thread.blas, err = openBLAS(d.Libraries, span{address(workspace), workspaceBytes})
		return err
	})
}

// open takes the card's primary context and makes the stream.
func (t *thread) open(c Card) error {
	d := t.driver
	return errors.Join(
		d.call("take the card's context", d.contextRetain, uintptr(unsafe.Pointer(&t.context)), uintptr(c.handle)),
		d.call("enter the card's context", d.contextSet, t.context),
		d.call("make a stream", d.streamCreate, uintptr(unsafe.Pointer(&t.stream)), 1), // NON_BLOCKING
	)
}

// load gives the kernels to the driver, which translates them for the card.
func (d *Device) load() error {
	t := d.thread
	t.graphs.names = map[uint64]string{}
	for _, file := range kernelFiles() {
		var module uintptr
		image := append([]byte(file.text), 0)
		if err := t.driver.call("load the kernels of "+file.name, t.driver.moduleLoad,
			uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&image[0])), 0, 0, 0); err != nil {
			return err
		}
		for _, name := range file.entries() {
			var fn uint64
			symbol := append([]byte(name), 0)
			if err := t.driver.call("find kernel "+name, t.driver.moduleFunction,
				uintptr(unsafe.Pointer(&fn)), module, uintptr(unsafe.Pointer(&symbol[0]))); err != nil {
				return err
			}
			d.kernels[name], t.graphs.names[fn] = fn, name
		}
	}
	return nil
}

// Close gives the card back. The device is not used afterwards.
func (d *Device) Close() {
	if d.closed {
		return
	}
	d.closed = true
	t := d.thread
	_ = t.do(func() error { // whatever fails, the process gives all of it back when it ends
		lib := t.driver
		if t.stream != 0 {
			_ = lib.call("wait", lib.streamSync, t.stream)
			for key := range t.graphs.kept {
				_ = t.graphs.forget(t, key)
			}
			t.blas.close()
			_ = lib.call("free a stream", lib.streamDestroy, t.stream)
		}
		d.host.close(lib)
		for _, r := range d.arena.regions {
			_ = lib.call("free memory", lib.memFree, uintptr(r.base))
		}
		if t.context != 0 {
			_ = lib.call("leave the context", lib.contextSet, 0)
		}
		return nil
	})
	t.stop()
}

// Name is for people: "cuda NVIDIA H200".
func (d *Device) Name() string { return "cuda " + strings.TrimSpace(d.name) }

// Mode is what New was asked for.
func (d *Device) Mode() gpu.Mode { return d.Options.Mode }

// named says whose error it is, once.
func named(err error) error {
	const name = "cuda device: "
	if strings.HasPrefix(err.Error(), name) {
		return err
	}
	return fmt.Errorf(name+"%w", err)
}

// refuse keeps the first failure until Sync.
func (d *Device) refuse(err error) {
	if d.refused == nil {
		d.refused = err
	}
}

func isLost(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && lost(e.Code)
}

func isCode(err error, code int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
