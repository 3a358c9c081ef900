package emulator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"understudy/gpu/cuda/emulator"
)

// stand is the stand-in driver with the kernels of testdata/faults.cu.
type stand struct {
	t       *testing.T
	library uintptr
	stream  uintptr
	module  uintptr
}

func newStand(t *testing.T, l emulator.Library) *stand {
	t.Helper()
	folder, err := emulator.BuildKernels(t.Context(), l, []string{filepath.Join("testdata", "faults.cu")})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "libcuda.so.1") // of its own: a failed launch spoils the library for all
	text, err := os.ReadFile(filepath.Join(folder, "libcuda.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &stand{t: t}
	if s.library, err = purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var context uintptr
	s.must("cuInit", 0)
	s.must("cuDevicePrimaryCtxRetain", uintptr(unsafe.Pointer(&context)), 0)
	s.must("cuCtxSetCurrent", context)
	s.must("cuStreamCreate", uintptr(unsafe.Pointer(&s.stream)), 1)
	ptx := []byte(ptxOf(t))
	s.must("cuModuleLoadDataEx", uintptr(unsafe.Pointer(&s.module)), uintptr(unsafe.Pointer(&ptx[0])), 0, 0, 0)
	return s
}

// ptxOf is as much of PTX as the stand-in reads, for the kernels of faults.cu.
func ptxOf(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "faults.cu"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(".version 7.1\n.target sm_80\n")
	for _, m := range regexp.MustCompile(`(?m)^KERNEL\(\d+, (\w+),`).FindAllSubmatch(source, -1) {
		fmt.Fprintf(&b, ".visible .entry %s(\n\t.param .u64 a,\n\t.param .u64 b\n)\n{\n\tret;\n}\n", m[1])
	}
	return b.String() + "\x00"
}

//go:uintptrescapes
func (s *stand) call(name string, args ...uintptr) int {
	s.t.Helper()
	at, err := purego.Dlsym(s.library, name)
	if err != nil {
		s.t.Fatal(err)
	}
	r, _, _ := purego.SyscallN(at, args...)
	return int(int32(r)) //nolint:gosec // an int of C
}

//go:uintptrescapes
func (s *stand) must(name string, args ...uintptr) {
	s.t.Helper()
	if code := s.call(name, args...); code != 0 {
		s.t.Fatalf("%s gives %d", name, code)
	}
}

// memory is n floats of the device.
func (s *stand) memory(n int) (p uint64) {
	s.t.Helper()
	s.must("cuMemAlloc_v2", uintptr(unsafe.Pointer(&p)), uintptr(4*n))
	return p
}

// host is n floats that asynchronous copies may touch.
func (s *stand) host(n int) []float32 {
	s.t.Helper()
	var p unsafe.Pointer
	s.must("cuMemHostAlloc", uintptr(unsafe.Pointer(&p)), uintptr(4*n), 0)
	return unsafe.Slice((*float32)(p), n)
}

// run launches a kernel on x = 1, 2, .. threads, and gives the result of waiting for it and y.
func (s *stand) run(name string, blocks, threads, out int) (code int, y []float32) {
	s.t.Helper()
	x := s.host(threads)
	for i := range x {
		x[i] = float32(i + 1)
	}
	from, to, y := s.memory(threads), s.memory(out), s.host(out)
	var function uintptr
	symbol := append([]byte(name), 0)
	s.must("cuModuleGetFunction", uintptr(unsafe.Pointer(&function)), s.module, uintptr(unsafe.Pointer(&symbol[0])))
	s.must("cuMemcpyHtoDAsync_v2", uintptr(from), uintptr(unsafe.Pointer(&x[0])), uintptr(4*threads), s.stream)
	args := []unsafe.Pointer{unsafe.Pointer(&to), unsafe.Pointer(&from)}
	s.must("cuLaunchKernel", function, uintptr(blocks), 1, 1, uintptr(threads), 1, 1, 1024, s.stream, uintptr(unsafe.Pointer(&args[0])), 0)
	s.must("cuMemcpyDtoHAsync_v2", uintptr(unsafe.Pointer(&y[0])), uintptr(to), uintptr(4*out), s.stream)
	return s.call("cuStreamSynchronize", s.stream), y
}

func (s *stand) failure() string {
	at, err := purego.Dlsym(s.library, "emulator_failure")
	if err != nil {
		s.t.Fatal(err)
	}
	p, _, _ := purego.SyscallN(at)
	text := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	n := 0
	for *(*byte)(unsafe.Add(text, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(text), n))
}

func each(t *testing.T, f func(t *testing.T, l emulator.Library)) {
	t.Helper()
	for _, l := range []emulator.Library{emulator.Ascending, emulator.Descending, emulator.Checked} {
		t.Run(l.String(), func(t *testing.T) { f(t, l) })
	}
}

func backwards(n int) []float32 {
	y := make([]float32, n)
	for i := range y {
		y[i] = float32(n - i)
	}
	return y
}

// twice is what two turns of missing_second_barrier would sum up.
func twice(n int) []float32 {
	y := backwards(n)
	for i := range y {
		y[i] = 2*y[i] + 1
	}
	return y
}

func products() []float32 {
	y := make([]float32, 16*8)
	for i := range y {
		y[i] = 16 * float32(i/8+1) * float32(i%8+1)
	}
	return y
}

func same(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// What is right is run and not complained of.
func TestRight(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l emulator.Library) {
		t.Helper()
		s := newStand(t, l)
		for _, name := range []string{"reverse", "finished_copy"} {
			if code, y := s.run(name, 1, 64, 64); code != 0 || !same(y, backwards(64)) {
				t.Errorf("%s gives %d, %s, %v", name, code, s.failure(), y)
			}
		}
		if code, y := s.run("product", 1, 32, 128); code != 0 || !same(y, products()) {
			t.Errorf("product gives %d, %s, %v", code, s.failure(), y)
		}
	})
}

// Each fault is found by the result, which is not the right one, or by a complaint of the
// library: in one of the two orders at least, and, where said, in the checked library.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		kernel                         string
		blocks, threads                int
		ascending, descending, checked string // of the complaint; "result": a wrong result; "": found by nobody
	}{
		{"missing_barrier", 1, 64, "result", "result", "reads without a barrier|no thread has written"},
		{"missing_warp_barrier", 1, 32, "", "", "reads without a barrier"},
		{"missing_second_barrier", 1, 64, "result", "result", "without a barrier"},
		{"barrier_after_exit", 1, 64, "threads diverge", "threads diverge", "threads diverge"},
		{"divergent_barrier", 1, 64, "threads diverge", "threads diverge", "threads diverge"},
		{"shuffle_without_lanes", 1, 64, "which has ended", "which has ended", "which has ended"},
		{"reads_poison", 1, 64, "result", "result", "no thread has written"},
		{"reads_uninitialised", 1, 64, "result", "result", ""},
		{"out_of_bounds", 1, 64, "", "", "writes 4 bytes at .* no memory of the device"},
		{"blocks_race", 2, 64, "", "", "writes without a barrier what thread 0 of block 0 wrote"},
		{"misaligned", 1, 64, "not aligned", "not aligned", "not aligned"},
		{"unfinished_copy", 1, 64, "result", "result", "no thread has written"},
		{"swapped_fragment", 1, 32, "result", "result", ""},
	} {
		t.Run(f.kernel, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, l emulator.Library) {
				t.Helper()
				want := [...]string{f.ascending, f.descending, f.checked}[l]
				s := newStand(t, l)
				out := f.threads
				right := map[string][]float32{
					"missing_barrier": backwards(64), "missing_second_barrier": twice(64), "swapped_fragment": products(),
				}[f.kernel]
				if f.kernel == "swapped_fragment" {
					out = 128
				}
				code, y := s.run(f.kernel, f.blocks, f.threads, out)
				said := s.failure()
				t.Log(code, said, y[:4])
				switch {
				case want == "result" && (code != 0 || right != nil && same(y, right)):
					t.Errorf("gives %d, %s, %v", code, said, y)
				case want != "" && want != "result" && (code != 719 || !regexp.MustCompile(want).MatchString(said)):
					t.Errorf("gives %d, %q, want %q", code, said, want)
				}
			})
		})
	}
}
