package cuda_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
)

// A device whose kernels NVRTC compiled from their sources computes as any other.
func TestKernelsFromSources(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{Sources: "kernels", Products: gpu.BF16})
	x := make([]float32, 100)
	for i := range x {
		x[i] = float32(i)
	}
	for i, y := range doubled(t, d, x, 3) {
		if y != 8*x[i] {
			t.Fatalf("%v three times doubled is %v", x[i], y)
		}
	}
	roundedProducts(t, d, gpu.F32, 13, 33, 48)
}

// What the compiler says against a source is in the error, and a folder of no kernels is told.
func TestSourcesThatDoNotCompile(t *testing.T) {
	t.Parallel()
	emulator.Only(t, "it asks for what a stand-in says")
	libraries := emulator.Folders(t, emulator.Ascending)
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a fault":         {map[string]string{"a.cu": "\n#error\n", "dev.h": "\n"}, `NVRTC_ERROR_COMPILATION: compile a.cu: a.cu(1): error: #error directive; 1 error detected in the compilation of "a.cu".`},
		"no such header":  {map[string]string{"a.cu": "#include \"other.h\"\n", "dev.h": "\n"}, `could not open source file "other.h"`},
		"an empty folder": {nil, "gpu/cuda/kernels"},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if d, err := cuda.New(cuda.Options{Libraries: libraries, Sources: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New = %v, %v, want %q", name, d, err, c.want)
		}
	}
}

// Where NVIDIA's compiler is, with a card or without, it makes the kernels of this build of their sources.
func TestRealNVRTC(t *testing.T) {
	if !cuda.HasNVRTC() {
		t.Skip("there is no NVRTC on this machine: pip install nvidia-cuda-nvrtc-cu12, and put its folder into LD_LIBRARY_PATH")
	}
	got, err := cuda.Compile("kernels", "compute_80")
	if err != nil {
		t.Fatal(err)
	}
	want := cuda.Kernels()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("NVRTC makes the kernels\n%v\nclang made\n%v", got, want)
	}
}
