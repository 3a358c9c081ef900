package cuda_test

import (
	"slices"
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
