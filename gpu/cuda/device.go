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
	// Products is the type of what products and attention read: F32, or BF16 for the tensor cores.
	// Activations and their gradients, and the KV arena, are of it, and weights of other types, float16
	// too, have a rounded copy in it beside them. Sums and the residual stream are in float32 either way.
	Products gpu.DType
	// Memory is the most bytes that are taken of the card; 0: all that is free.
	Memory int64
	// Warn is told, in a line, of what works but not as well as it could; nil: nobody is.
	Warn func(text string)
	// Libraries are folders to look for the driver and cuBLASLt in, before all others.
	Libraries []string
	// Sources is a folder of kernels (gpu/cuda/kernels) that NVRTC compiles for the card at hand, where
	// this build's PTX would be loaded: for developers.
	Sources string
	// NoGraphs launches every kernel by itself: for debugging.
	NoGraphs bool
}

// Device is an NVIDIA GPU. Make it with New.
type Device struct {
	Options
	name       string
	thread     *thread
	arena      arena
	modules    []uintptr
	kernels    map[string]uint64 // functions by name
	list       []command
	spare      chan []command // lists to be used again
	host       staging
	scratch    [scratches]gpu.Buffer
	plans      map[shape]int // of products, see blas.plan
	weights    map[*memory][]*weight
	processors int // of the card
	planned    pagePlan
	heads      joinedHeads
	uploaded   []indices // that are still as they were uploaded
	draws      []draw    // of the last Sample, and what it drew
	drawn      []drawn
	refused    error // the first failure that no driver has reported
	warned     bool  // that products go unchecked
	graphless  bool  // that the driver makes no graphs was told
	closed     bool
}

var _ gpu.Device = (*Device)(nil)

// Validate lists all faults.
func (o Options) Validate() error {
	var errs []error
	for _, x := range []struct {
		ok   bool
		text string
	}{
		{o.Products == gpu.F32 || o.Products == gpu.BF16, "products are in float32 or bfloat16"},
		{o.Mode == gpu.Exact || o.Mode == gpu.Fast, "the mode is exact or fast"},
		{o.Number >= 0, "the card's number must not be negative"},
		{o.Memory >= 0, "memory must not be negative"},
	} {
		if !x.ok {
			errs = append(errs, errors.New(x.text))
		}
	}
	return errors.Join(errs...)
}

// New opens the driver, takes the card and its memory, and loads the kernels.
func New(o Options) (_ *Device, err error) {
	if err := o.Validate(); err != nil {
		return nil, named(err)
	}
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
	card, err := t.driver.card(d.Number)
	if err != nil {
		return err
	}
	d.name, d.processors = card.Name, card.Processors
	if err := card.Usable(); err != nil {
		return err
	}
	if err := t.enter(card); err != nil {
		return err
	}
	if err := t.driver.call("make a stream", t.driver.streamCreate, uintptr(unsafe.Pointer(&t.stream)), 1); err != nil { // NON_BLOCKING
		return err
	}
	t.graphs = graphs{seed: maphash.MakeSeed(), seen: map[uint64]bool{}, kept: map[uint64]*graph{}, names: map[uint64]string{}, off: d.NoGraphs}
	if err := d.load(card); err != nil {
		return err
	}
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

// enter takes the card's primary context.
func (t *thread) enter(c Card) error {
	d := t.driver
	var context uintptr
	if err := d.call("take the card's context", d.contextRetain, uintptr(unsafe.Pointer(&context)), uintptr(c.handle)); err != nil {
		return err
	}
	t.card, t.context = c.handle, context
	return d.call("enter the card's context", d.contextSet, t.context)
}

// leave gives the card's context back.
func (t *thread) leave() {
	if t.context == 0 {
		return
	}
	d := t.driver
	_ = d.call("leave the card's context", d.contextSet, 0)
	_ = d.call("give the card's context back", d.contextRelease, uintptr(t.card))
	t.context = 0
}

// load gives the kernels to the driver, which translates them for the card.
func (d *Device) load(card Card) error {
	t, files := d.thread, kernelFiles()
	if d.Sources != "" {
		var err error
		if files, err = compileSources(d.Sources, fmt.Sprintf("compute_%d%d", card.Major, card.Minor), d.Libraries); err != nil {
			return err
		}
	}
	for _, file := range files {
		module, err := t.driver.loadModule(file)
		if err != nil {
			return err
		}
		d.modules = append(d.modules, module)
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
		for _, module := range d.modules {
			_ = lib.call("unload kernels", lib.moduleUnload, module)
		}
		t.leave()
		return nil
	})
	t.stop()
}

// Name is for people: "cuda NVIDIA H200". It says so when the driver made no graphs.
func (d *Device) Name() string {
	name := "cuda " + strings.TrimSpace(d.name)
	if err := d.thread.graphs.refused.Load(); err != nil {
		name += fmt.Sprintf(", without graphs (%v)", *err)
	}
	return name
}

// warnOfGraphs tells once that the driver made no graph of a list.
func (d *Device) warnOfGraphs() {
	err := d.thread.graphs.refused.Load()
	if err == nil || d.graphless || d.Warn == nil {
		return
	}
	d.graphless = true
	d.Warn(fmt.Sprintf("kernels are launched one by one, which costs small steps most: the driver made no graph of them (%v)", *err))
}

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
