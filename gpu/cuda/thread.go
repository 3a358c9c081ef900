package cuda

import (
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// thread is the one OS thread that talks to the driver: contexts and captures belong to a
// thread. Only it touches the fields below it.
type thread struct {
	work chan func()
	done chan struct{}

	driver  *driver
	card    int32 // whose context it is
	context uintptr
	stream  uintptr
	graphs  graphs
	blas    *blas
	failed  error // the first failure; once the device is lost, every later one too
	params  [maxArgs]unsafe.Pointer
}

func startThread(d *driver) *thread {
	t := &thread{work: make(chan func(), 4), done: make(chan struct{}), driver: d}
	go func() {
		defer close(t.done)
		runtime.LockOSThread() // never unlocked: the thread ends with its context
		for f := range t.work {
			f()
		}
	}()
	return t
}

// do runs f on the thread and waits.
func (t *thread) do(f func() error) error {
	result := make(chan error)
	t.work <- func() { result <- f() }
	return <-result
}

// stop ends the thread after what it was given.
func (t *thread) stop() {
	close(t.work)
	<-t.done
}

// run gives a list to the stream, unless something has failed already: then nothing after
// it is worth running.
func (t *thread) run(list []command) {
	if t.failed != nil {
		return
	}
	if err := t.graphs.run(t, list); err != nil {
		t.failed = err
	}
}

// enqueue gives the commands to the stream one by one.
func (t *thread) enqueue(list []command) error {
	for i := range list {
		if err := t.command(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *thread) command(c *command) error {
	d, s := t.driver, t.stream
	at := func(i int) uintptr { return uintptr(c.args[i]) }
	switch c.kind {
	case launching:
		return t.launch(c)
	case uploading:
		return d.call("copy to the device", d.toDevice, at(0), at(1), at(2), s)
	case downloading:
		return d.call("copy from the device", d.toHost, at(0), at(1), at(2), s)
	case copying:
		return d.call("copy on the device", d.within, at(0), at(1), at(2), s)
	case filling:
		return d.call("clear memory", d.fill, at(0), at(1), at(2), s)
	case product:
		return t.blas.multiply(s, c)
	}
	panic("cuda: unknown command")
}

// launch calls cuLaunchKernel, which copies the arguments before it returns. It is written
// out for its speed: nothing is allocated.
func (t *thread) launch(c *command) error {
	for i := range c.n {
		t.params[i] = unsafe.Pointer(&c.args[i])
	}
	r, _, _ := purego.SyscallN(t.driver.launchKernel, uintptr(c.fn),
		uintptr(c.grid[0]), uintptr(c.grid[1]), uintptr(c.grid[2]),
		uintptr(c.block[0]), uintptr(c.block[1]), uintptr(c.block[2]),
		0, t.stream, uintptr(unsafe.Pointer(&t.params[0])), 0)
	if code := int(int32(r)); code != 0 {
		return &Error{Code: code, Name: t.driver.nameOf(code), Doing: "launch " + t.graphs.nameOf(c.fn), Remedy: remedy(code)}
	}
	return nil
}

// wait waits for the stream and gives the first failure since the last wait; a lost device
// fails for ever. Even after a failure the stream is waited for: it may still read pinned
// memory.
func (t *thread) wait(doing string) error {
	failed := t.failed
	if isLost(failed) {
		return failed
	}
	t.failed = nil
	if err := t.driver.call(doing, t.driver.streamSync, t.stream); failed == nil {
		failed = err
	}
	if isLost(failed) {
		t.failed = failed
	}
	return failed
}
