package cuda_test

import (
	"slices"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
)

// A list of commands that comes again runs as a graph, with the inputs of its own time and the
// same bits; another list does not.
func TestGraphs(t *testing.T) {
	t.Parallel()
	d, plain := open(t, cuda.Options{}), open(t, cuda.Options{NoGraphs: true})
	for round := range 5 {
		x := make([]float32, 3000)
		for i := range x {
			x[i] = float32(i*round) / 7
		}
		got, want := doubled(t, d, x, 20), doubled(t, plain, x, 20)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: a graph gives other bits", round)
		}
	}
	if replays, kept := d.Replays(); replays != 3 || kept != 1 {
		t.Errorf("%d of 5 rounds were replayed from %d graphs, want 3 from 1", replays, kept)
	}
	if replays, _ := plain.Replays(); replays != 0 {
		t.Errorf("%d graphs without graphs", replays)
	}
	for n := range 200 { // more lists than graphs are kept
		doubled(t, d, make([]float32, 10+n), 17)
		doubled(t, d, make([]float32, 10+n), 17)
	}
	if _, kept := d.Replays(); kept != 64 {
		t.Errorf("%d graphs are kept, want 64", kept)
	}
}

// doubled is x·2ⁿ, by n additions between an upload and a download, in memory that is the same
// each time.
func doubled(t *testing.T, d *cuda.Device, x []float32, n int) []float32 {
	t.Helper()
	b, err := d.Alloc(gpu.F32, 4000)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(b)
	b = b.Slice(0, len(x))
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	d.Upload(b, x)
	for range n {
		d.Add(b, b, b)
	}
	y := make([]float32, len(x))
	if err := d.Download(y, b); err != nil {
		t.Fatal(err)
	}
	return y
}

// A driver that makes no graph of a list costs no more than the graphs: the list runs without, and so does
// what comes after it, and the device's name says why. A card that is lost meanwhile is told.
func TestGraphsThatTheDriverRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		symbol string
		after  int
		want   string
	}{
		{"cuStreamBeginCapture_v2", 0, "CUDA_ERROR_OUT_OF_MEMORY: begin a capture"},
		{"cuLaunchKernel", 25, "CUDA_ERROR_OUT_OF_MEMORY: launch add_f32"},
		{"cuStreamEndCapture", 0, "CUDA_ERROR_OUT_OF_MEMORY: end a capture"},
		{"cuGraphInstantiateWithFlags", 0, "CUDA_ERROR_OUT_OF_MEMORY: make a graph"},
		{"cuGraphDestroy", 0, "CUDA_ERROR_OUT_OF_MEMORY: free a graph"},
		{"cuGraphLaunch", 0, "CUDA_ERROR_OUT_OF_MEMORY: launch a graph"},
		{"cuGraphLaunch", 1, "CUDA_ERROR_OUT_OF_MEMORY: launch a graph"},
	} {
		f := newFaulty(t)
		var told []string
		d, err := f.open(cuda.Options{Warn: func(text string) { told = append(told, text) }})
		if err != nil {
			t.Fatal(err)
		}
		f.fail(c.symbol, c.after, 2)
		for round := range 4 {
			if got := doubled(t, d, []float32{1, float32(round)}, 20); !slices.Equal(got, []float32{1 << 20, float32(round << 20)}) {
				t.Errorf("%s fails after %d: round %d gives %v", c.symbol, c.after, round, got)
			}
		}
		if name := d.Name(); !strings.Contains(name, ", without graphs ("+c.want) {
			t.Errorf("%s fails after %d: the device is %q, want %q in it", c.symbol, c.after, name, c.want)
		}
		if len(told) != 1 || !strings.Contains(told[0], "no graph of them ("+c.want) {
			t.Errorf("%s fails after %d: %q was told", c.symbol, c.after, told)
		}
	}
	f := newFaulty(t)
	d, err := f.open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	doubled(t, d, []float32{1}, 20)
	b, err := d.Alloc(gpu.F32, 4000)
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.fail("cuStreamBeginCapture_v2", 0, 719)
	d.Upload(b.Slice(0, 1), []float32{1})
	for range 20 {
		d.Add(b.Slice(0, 1), b.Slice(0, 1), b.Slice(0, 1))
	}
	if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED: begin a capture") {
		t.Errorf("a card that is lost in a capture: %v", err)
	}
}
