package cuda_test

import (
	"fmt"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
)

// Every product that the sizes of Qwen3 ask of cuBLASLt, of few rows and of many, gives k for ones.
// The emulator, which is too slow for those sizes, does it for a tiny one.
func TestOnes(t *testing.T) {
	names, rows := []string{"tiny"}, []int{1, 24}
	if emulator.OnCard() {
		names, rows = []string{"0.6B", "1.7B", "4B", "8B"}, []int{1, 8, 64, 110, 256, 600, 1024, 4096}
	}
	for _, kind := range []gpu.DType{gpu.BF16, gpu.F32} {
		for _, name := range names {
			t.Run(fmt.Sprint(name, " ", kind), func(t *testing.T) {
				d := open(t, cuda.Options{Mode: gpu.Fast, Products: kind})
				for _, x := range append(weightShapes(qwen3Shapes()[name]), [2]int{3, 1001}, [2]int{1001, 3}) { // 1001 is 1000 in BF16
					for _, r := range rows {
						if done, err := d.CheckOnes(r, x[0], x[1], kind); err != nil {
							t.Errorf("%d rows with a weight (%d,%d): %v", r, x[0], x[1], err)
						} else if !done {
							t.Errorf("%d rows with a weight (%d,%d): the card has not the memory for a check", r, x[0], x[1])
						}
					}
				}
			})
		}
	}
}

// weightShapes are the matrices of a model.
func weightShapes(c gpu.Config) [][2]int {
	return [][2]int{
		{c.H * c.D, c.Width}, {c.G * c.D, c.Width}, {c.Width, c.H * c.D}, {c.Hidden, c.Width}, {c.Width, c.Hidden}, {c.Vocab, c.Width},
	}
}

// A library that drops the tail of its sums, as one did on some shapes, is found at the first product.
func TestOnesFindDroppedTail(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	d, err := f.open(cuda.Options{Mode: gpu.Fast, Products: gpu.BF16})
	if err != nil {
		t.Fatal(err)
	}
	f.call("emulator_drop", 3)
	const rows = 32 + 1 // fewer do not go to the library
	const want = "cuBLASLt multiplies ones of (4,33,1000) wrongly"
	if _, err := d.CheckOnes(rows, 4, 1000, gpu.BF16); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("CheckOnes = %v, want %q", err, want)
	}
	x, err := d.Alloc(gpu.F32, rows*1000)
	if err != nil {
		t.Fatal(err)
	}
	y, err := d.Alloc(gpu.BF16, rows*4) // in which 997 is 996, as 1000 is 1000: the check does not rely on it
	if err != nil {
		t.Fatal(err)
	}
	for _, y := range []gpu.Buffer{x.Slice(0, rows*4), y} {
		d.MatMul(y, x, d.NewWeight(x.Slice(0, 4*1000), 4, 1000))
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a product with a result of type %d: %v, want %q", y.Type, err, want)
		}
	}
}
