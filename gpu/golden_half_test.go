package gpu_test

import (
	"math"
	"path/filepath"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
	"understudy/gpu/safetensors"
)

// TestGoldenInBF16: with weights and activations in bfloat16, which has 8 bits, logits, every gradient
// and ten losses are those of PyTorch in float64 up to roundings: as vectors they are but some of them away. A fast
// training makes much of small differences: norms are held to less.
func TestGoldenInBF16(t *testing.T) {
	if !emulator.Supported() {
		t.Skip("the device with activations in bfloat16 is for Linux")
	}
	for _, kind := range []string{gpu.Qwen3, gpu.Llama} {
		for _, mode := range []gpu.Mode{gpu.Exact, gpu.Fast} {
			t.Run(kind+" "+mode.String(), func(t *testing.T) {
				dir := filepath.Join("testdata", "golden_"+kind)
				m, err := gpu.Load(emulated(t, cuda.Options{Mode: mode, Products: gpu.BF16}), dir, gpu.LoadConfig{Trainable: true})
				if err != nil {
					t.Fatal(err)
				}
				file, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				g := readGolden(t, dir)
				roundingsAway(t, "logits", goldenStep(t, m, g), file, "logits", 3)
				tr := newTrainer(t, m, gpu.TrainerConfig{})
				loss := g.loss(t, tr)
				if math.Abs(loss-g.Losses[0]) > math.Abs(loss)/256 {
					t.Errorf("loss %.9g, want %.9g", loss, g.Losses[0])
				}
				for _, p := range tr.Gradients("").Tensors {
					got := make([]float32, p.Len)
					if err := tr.Device().Download(got, p.Buffer); err != nil {
						t.Fatal(err)
					}
					roundingsAway(t, p.Name, got, file, "grad."+p.Name, 8)
				}
				tr.ClearGradients()
				goldenTraining(t, tr, g, 1.0/64, 1.0/4)
			})
		}
	}
}

// roundingsAway allows a distance of so many roundings to bfloat16 from a tensor of a file.
func roundingsAway(t *testing.T, what string, got []float32, file *safetensors.File, name string, roundings float64) {
	t.Helper()
	tensor, err := file.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, tensor.Len())
	if err := tensor.Read(want, 0); err != nil {
		t.Fatal(err)
	}
	off := distance(want, got)
	if !(off <= roundings/256) {
		t.Errorf("%s: %.2g of the whole away, want at most %.2g", what, off, roundings/256)
	}
}
