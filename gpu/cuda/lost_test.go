package cuda_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
)

// small is a model that trains quickly on the emulator.
func small() gpu.Config {
	return gpu.Config{
		Type: gpu.Qwen3, Layers: 1, Width: 12, Hidden: 20, Vocab: 37, Context: 16,
		Heads: gpu.Heads{H: 4, G: 2, D: 6}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1,
	}
}

// A card that is lost in the middle of a step ends the step with an error; what was saved before
// goes on, on another card, with the bits that an undisturbed run has.
func TestCheckpointSurvivesLostCard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	undisturbed := open(t, cuda.Options{})
	m, err := gpu.NewRandom(undisturbed, small(), 1)
	if err != nil {
		t.Fatal(err)
	}
	want := newRun(t, m).steps(t, 4)

	f := newFaulty(t)
	d, err := f.open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = gpu.NewRandom(d, small(), 1); err != nil {
		t.Fatal(err)
	}
	r := newRun(t, m)
	r.steps(t, 2)
	if err := m.Save(dir, gpu.F32); err != nil {
		t.Fatal(err)
	}
	if err := r.optimiser.Save(filepath.Join(dir, "optimiser.safetensors")); err != nil {
		t.Fatal(err)
	}
	f.fail("cuGraphLaunch", 0, 719)
	f.fail("cuLaunchKernel", 30, 719)
	_, err = r.step()
	if err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED") || !strings.Contains(err.Error(), "start again from the last checkpoint") {
		t.Fatalf("a step on a card that is lost: %v", err)
	}
	if _, err := r.step(); err == nil {
		t.Error("a lost card trains on")
	}

	again := open(t, cuda.Options{})
	if m, err = gpu.Load(again, dir, gpu.LoadConfig{Trainable: true}); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r = newRun(t, m)
	if err := r.optimiser.Restore(filepath.Join(dir, "optimiser.safetensors")); err != nil {
		t.Fatal(err)
	}
	if got := r.steps(t, 2); !slices.Equal(got, want[2*len(want)/4:]) {
		t.Errorf("after the checkpoint %v, undisturbed %v", got, want[2*len(want)/4:])
	}
}

// run is a training.
type run struct {
	trainer   *gpu.Trainer
	optimiser *gpu.AdamW
}

func newRun(t *testing.T, m *gpu.Model) run {
	t.Helper()
	tr, err := m.NewTrainer(gpu.TrainerConfig{Tokens: 8})
	if err != nil {
		t.Fatal(err)
	}
	o, err := tr.NewAdamW(gpu.DefaultAdamW(1e-2))
	if err != nil {
		t.Fatal(err)
	}
	return run{tr, o}
}

// step trains on one sequence and gives its log-probabilities before.
func (r run) step() ([]float32, error) {
	b := &gpu.Batch{Tokens: []int32{3, 1, 4, 1, 5, 9, 2, 6}, Lengths: []int32{8}}
	for i := range 7 {
		b.Rows, b.Targets = append(b.Rows, int32(i)), append(b.Targets, b.Tokens[i+1])
	}
	var s gpu.Scores
	if err := r.trainer.Forward(b, &s); err != nil {
		return nil, err
	}
	got := slices.Clone(s.LogProb)
	if err := r.trainer.Backward(slices.Repeat([]float32{-1}, 7), nil); err != nil {
		return nil, err
	}
	_, err := r.optimiser.Update()
	return got, err
}

func (r run) steps(t *testing.T, n int) (all []float32) {
	t.Helper()
	for range n {
		got, err := r.step()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got...)
	}
	return all
}
