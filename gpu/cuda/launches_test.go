package cuda_test

import (
	"maps"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
)

// A decode step in bfloat16 takes 10 launches a layer, whether heads have norms or not.
func TestLaunchesOfALayer(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"add_rms_norm_f32_bf16": 2, "heads_bf16": 1, "flash_split_d32": 1, "attend_merge_bf16": 1, "swiglu_bf16": 1,
		"matmul_mma_few8_bf16": 2, "matmul_mma_few8_f32": 2, // queries, keys and values are one, and so are the gates
	}
	for _, kind := range []string{gpu.Qwen3, gpu.Llama} {
		got := decodeLaunches(t, kind, 3)
		for name, n := range decodeLaunches(t, kind, 2) {
			if got[name] -= n; got[name] == 0 {
				delete(got, name)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: a layer launches %v, want %v", kind, got, want)
		}
	}
}

// decodeLaunches is how often each kernel is launched in a decode step of four rows, which is not the first: that one
// rounds the weights.
func decodeLaunches(t *testing.T, kind string, layers int) map[string]int {
	t.Helper()
	f := newFaulty(t)
	d, err := f.open(cuda.Options{Products: gpu.BF16, NoGraphs: true})
	if err != nil {
		t.Fatal(err)
	}
	shape := small()
	shape.Type, shape.Layers = kind, layers
	m, err := gpu.NewRandom(d, shape, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.NewRunner(gpu.RunnerConfig{Pages: 4, Rows: 4, Wanted: 4, Sequences: 4, Context: 16})
	if err != nil {
		t.Fatal(err)
	}
	launches := map[string]int{}
	for step := range int32(2) {
		s := &gpu.Step{
			Tokens: []int32{1, 2, 3, 4}, Positions: []int32{step, step, step, step}, Slots: []int32{step, 16 + step, 32 + step, 48 + step},
			Sequences: []int32{0, 1, 2, 3}, Tables: [][]int32{{0}, {1}, {2}, {3}}, Wanted: []int32{0, 1, 2, 3},
		}
		if err := r.Step(s, &gpu.Logits{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range cuda.Kernels() {
			launches[name] = f.launches(name) - launches[name]
		}
	}
	return launches
}
