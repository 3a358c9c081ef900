package cuda_test

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
)

// open makes a device on the emulator, or on this machine's card (UNDERSTUDY_CUDA=driver).
func open(t *testing.T, o cuda.Options) *cuda.Device {
	t.Helper()
	if o.Libraries == nil {
		o.Libraries = emulator.Folders(t, emulator.Ascending)
	}
	o.Sources = cmp.Or(o.Sources, emulator.Sources())
	d, err := cuda.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// faulty is an emulated driver of the test's own, which can be told to fail: a card that is
// lost is lost to everybody who uses the same library.
type faulty struct {
	t       *testing.T
	folder  string
	library uintptr
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	emulator.Only(t, "it makes the driver fail, or asks what it holds or was launched")
	f := &faulty{t: t, folder: t.TempDir()}
	text, err := os.ReadFile(filepath.Join(emulator.Folders(t, emulator.Ascending)[0], "libcuda.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.folder, "libcuda.so.1")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("libcuda.so.1", filepath.Join(f.folder, "libcublasLt.so.13")); err != nil {
		t.Fatal(err)
	}
	if f.library, err = purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL); err != nil {
		t.Fatal(err)
	}
	return f
}

//go:uintptrescapes
func (f *faulty) call(name string, args ...uintptr) int {
	f.t.Helper()
	at, err := purego.Dlsym(f.library, name)
	if err != nil {
		f.t.Fatal(err)
	}
	r, _, _ := purego.SyscallN(at, args...)
	return int(int32(r))
}

// held is how many things of a kind were taken of the driver and not given back.
func (f *faulty) held(kind string) int {
	f.t.Helper()
	name := append([]byte(kind), 0)
	return f.call("emulator_held", uintptr(unsafe.Pointer(&name[0])))
}

// launches is how often a kernel was launched.
func (f *faulty) launches(kernel string) int {
	f.t.Helper()
	name := append([]byte(kernel), 0)
	return f.call("emulator_launches", uintptr(unsafe.Pointer(&name[0])))
}

// fail makes the call of an entry point, after so many others of it, give a result.
func (f *faulty) fail(symbol string, after, result int) {
	f.t.Helper()
	name := append([]byte(symbol), 0)
	f.call("emulator_fail", uintptr(unsafe.Pointer(&name[0])), uintptr(after), uintptr(result))
}

// card changes what the machine has.
func (f *faulty) card(major, minor, driver int, memory int64, count int) {
	f.t.Helper()
	f.call("emulator_card", uintptr(major), uintptr(minor), uintptr(driver), uintptr(memory), uintptr(count))
}

func (f *faulty) open(o cuda.Options) (*cuda.Device, error) {
	o.Libraries = []string{f.folder}
	d, err := cuda.New(o)
	if err == nil {
		f.t.Cleanup(d.Close)
	}
	return d, err
}

// driverKinds are what a device takes of the driver.
func driverKinds() []string {
	return []string{"context", "module", "stream", "memory", "pinned", "graph"}
}

// gaveBack fails the test where something is still taken.
func (f *faulty) gaveBack() {
	f.t.Helper()
	for _, kind := range driverKinds() {
		if n := f.held(kind); n != 0 {
			f.t.Errorf("%d of kind %s were not given back", n, kind)
		}
	}
}
