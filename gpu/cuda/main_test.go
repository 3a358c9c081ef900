package cuda_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"understudy/audit/leaktest"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
)

// TestMain also fails when a kernel was launched by no test, unless only some tests run.
func TestMain(m *testing.M) {
	if !emulator.Supported() {
		fmt.Println("the CUDA device and its emulator are for Linux: nothing was tested")
		return
	}
	code := m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" {
		if idle, err := idleKernels(); err != nil || len(idle) > 0 {
			fmt.Fprintf(os.Stderr, "kernels that no test launches: %v %v\n", idle, err)
			code = 1
		}
		if err := leaktest.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// idleKernels are those that neither emulated card has launched.
func idleKernels() ([]string, error) {
	if emulator.OnCard() {
		return nil, nil // it does not count
	}
	var counts []uintptr
	for _, l := range []emulator.Library{emulator.Ascending, emulator.Descending} {
		folder, err := emulator.Build(context.Background(), l)
		if err != nil {
			return nil, err
		}
		library, err := purego.Dlopen(filepath.Join(folder, "libcuda.so.1"), purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			return nil, err
		}
		count, err := purego.Dlsym(library, "emulator_launches")
		if err != nil {
			return nil, err
		}
		counts = append(counts, count)
	}
	return slices.DeleteFunc(cuda.Kernels(), func(name string) bool {
		symbol := append([]byte(name), 0)
		return slices.ContainsFunc(counts, func(count uintptr) bool {
			n, _, _ := purego.SyscallN(count, uintptr(unsafe.Pointer(&symbol[0])))
			return n > 0
		})
	}), nil
}
