package gpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
)

// A row has the same bits in a training pass of many rows as in steps of more rows than a decode batch has, of as many,
// and of one, which a device launches otherwise.
func TestManyRowsKeepTheirBits(t *testing.T) {
	t.Parallel()
	if !emulator.Supported() {
		t.Skip("the CUDA device's emulator is for Linux")
	}
	for _, products := range []gpu.DType{gpu.F32, gpu.BF16} {
		t.Run(fmt.Sprint("products in ", products), func(t *testing.T) {
			t.Parallel()
			shape := tiny(gpu.Llama, true) // whose heads have no norms
			shape.Layers, shape.Width, shape.Hidden, shape.Heads, shape.Context = 1, 4, 4, gpu.Heads{H: 1, G: 1, D: 4}, 1040
			manyRows(t, newModel(t, emulated(t, cuda.Options{Products: products}), shape), 513, 512, 1, 6)
		})
	}
}

// manyRows scores one sequence in steps of so many rows, and as a batch.
func manyRows(t *testing.T, m *gpu.Model, steps ...int) {
	t.Helper()
	const pages = 65
	r, err := m.NewRunner(gpu.RunnerConfig{Pages: pages, Rows: 520, Wanted: 520, Sequences: 1, Context: m.Context})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	table := make([]int32, pages)
	for i := range table {
		table[i] = int32(pages - 1 - i)
	}
	tokens := randomTokens(rand.New(rand.NewPCG(3, 4)), m.Context, m.Vocab)
	var stepped []float32
	b := &gpu.Batch{}
	for _, rows := range steps {
		from := len(stepped)
		var s gpu.Step
		rowsOf(&s, tokens, from, from+rows, table)
		logits := step(t, r, &s)
		for i := range rows {
			target := tokens[from+i+1]
			stepped = append(stepped, gpu.LogProb(logits.Row(i)[target], 1, logits.LSE[i]))
			b.Rows, b.Targets, b.Scale = append(b.Rows, int32(from+i)), append(b.Targets, target), append(b.Scale, 1)
		}
	}
	b.Tokens, b.Lengths = tokens[:len(stepped)+1], []int32{int32(len(stepped) + 1)}
	got := score(t, newTrainer(t, m, gpu.TrainerConfig{Tokens: m.Context}), b)
	for i, want := range stepped {
		if got.LogProb[i] != want {
			t.Fatalf("row %d: log-probability %v in training, %v in a step of rows %v", i, got.LogProb[i], want, steps)
		}
	}
}
