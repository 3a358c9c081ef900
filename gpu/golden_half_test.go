package gpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
	"understudy/gpu/reference"
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
				m, file, g := openGolden(t, emulated(t, cuda.Options{Mode: mode, Products: gpu.BF16}), kind)
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

// TestAdapterGradientsInBF16: gradients of adapters, of which some rows have one and others another, are those of
// float64 up to roundings, as tree and with checkpointing, too.
func TestAdapterGradientsInBF16(t *testing.T) {
	if !emulator.Supported() {
		t.Skip("the device with activations in bfloat16 is for Linux")
	}
	half := emulated(t, cuda.Options{Products: gpu.BF16})
	want, got := adapterGradients(t, reference.New(reference.Double)), adapterGradients(t, half)
	for name, grads := range want {
		if off := distance(grads, got[name]); !(off <= 8.0/256) {
			t.Errorf("gradients of %s are %.2g of the whole away", name, off)
		}
	}
}

// adapterGradients are those of two adapters of one model.
func adapterGradients(t *testing.T, dev gpu.Device) map[string][]float32 {
	t.Helper()
	m := newModel(t, dev, tiny(gpu.Qwen3, false))
	names, all := []string{"act", "rehearse"}, map[string][]float32{}
	for i, name := range names {
		a, err := m.AddAdapter(name, gpu.AdapterConfig{Rank: 3, Alpha: 6}, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		roughen(t, a.Params, dev, uint64(3+i))
		a.Changed()
	}
	tree, _ := family(rand.New(rand.NewPCG(6, 1)), m.Vocab)
	tree.Adapters = []gpu.Span{{Adapter: "act", From: 0, To: 19}, {Adapter: "rehearse", From: 26, To: 40}}
	for _, saving := range []bool{false, true} {
		tr := newTrainer(t, m, gpu.TrainerConfig{Tokens: 100, Expanded: 100, Targets: 100, Adapters: names, Checkpoint: saving})
		gradients(t, tr, tree)
		for _, name := range names {
			kind := name
			if saving {
				kind += ", with checkpointing"
			}
			all[kind] = download(t, dev, tr.Gradients(name))
		}
	}
	return all
}
