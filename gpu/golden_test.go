package gpu_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"understudy/gpu"
	"understudy/gpu/safetensors"
)

// golden is what testdata/golden.py computed with PyTorch in float64.
type golden struct {
	Sequences [][]int32
	Weights   []float32 // of each target's −logprob; a twentieth of its −entropy
	Losses    []float64 // before each of ten updates
	Norms     []float64 // of the gradients, before clipping
}

func readGolden(tb testing.TB, dir string) golden {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		tb.Fatal(err)
	}
	return g
}

// openGolden loads the model of a kind, to be trained, and what PyTorch computed with it.
func openGolden(t *testing.T, dev gpu.Device, kind string) (*gpu.Model, *safetensors.File, golden) {
	t.Helper()
	dir := filepath.Join("testdata", "golden_"+kind)
	m, err := gpu.Load(dev, dir, gpu.LoadConfig{Trainable: true})
	if err != nil {
		t.Fatal(err)
	}
	file, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return m, file, readGolden(t, dir)
}

// loss runs forward and backward and gives the loss of golden.py.
func (g golden) loss(tb testing.TB, tr *gpu.Trainer) float64 {
	tb.Helper()
	s := score(tb, tr, batchOf(g.Sequences...))
	loss, dlogp, dent := 0.0, make([]float32, len(g.Weights)), make([]float32, len(g.Weights))
	for i, w := range g.Weights {
		loss -= float64(w)*float64(s.LogProb[i]) + float64(w)/20*float64(s.Entropy[i])
		dlogp[i], dent[i] = -w, -w/20
	}
	if err := tr.Backward(dlogp, dent); err != nil {
		tb.Fatal(err)
	}
	return loss
}

// TestGolden: logits, every gradient and ten losses of AdamW are those of
// PyTorch, for both model types on every device.
func TestGolden(t *testing.T) {
	for _, kind := range []string{gpu.Qwen3, gpu.Llama} {
		for _, dev := range devices(t) {
			t.Run(kind+" "+dev.Name(), func(t *testing.T) {
				m, file, g := openGolden(t, dev, kind)
				goldenLogits(t, m, g, file)
				tr := newTrainer(t, m, gpu.TrainerConfig{})
				goldenGradients(t, tr, g, file)
				goldenTraining(t, tr, g, 1e-4, 1e-3)
			})
		}
	}
}

// compare allows a difference of tolerance times the greatest element.
func compare(tb testing.TB, name string, got []float32, want safetensors.Tensor, tolerance float64) {
	tb.Helper()
	values := make([]float32, want.Len())
	if err := want.Read(values, 0); err != nil {
		tb.Fatal(err)
	}
	if len(got) != len(values) {
		tb.Fatalf("%s: %d elements, want %d", name, len(got), len(values))
	}
	greatest, worst := 0.0, 0.0
	for i := range values {
		greatest = max(greatest, math.Abs(float64(values[i])))
		worst = max(worst, math.Abs(float64(got[i])-float64(values[i])))
	}
	if !(worst <= tolerance*greatest) {
		tb.Errorf("%s: off by %.2g of %.3g, tolerance %.1g", name, worst, greatest, tolerance)
	}
}

func goldenLogits(t *testing.T, m *gpu.Model, g golden, file *safetensors.File) {
	t.Helper()
	want, err := file.Tensor("logits")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "logits", goldenStep(t, m, g), want, 1e-5)
}

// goldenStep gives the logits of the sequences.
func goldenStep(t *testing.T, m *gpu.Model, g golden) []float32 {
	t.Helper()
	var s gpu.Step
	rowsOf(&s, g.Sequences[0], 0, len(g.Sequences[0]), []int32{0, 1, 2})
	rowsOf(&s, g.Sequences[1], 0, len(g.Sequences[1]), []int32{3, 4, 5})
	return step(t, newRunner(t, m), &s).Values
}

func goldenGradients(t *testing.T, tr *gpu.Trainer, g golden, file *safetensors.File) {
	t.Helper()
	loss := g.loss(t, tr)
	if math.Abs(loss-g.Losses[0]) > 1e-5*math.Abs(loss) {
		t.Errorf("loss %.9g, want %.9g", loss, g.Losses[0])
	}
	for _, p := range tr.Gradients("").Tensors {
		want, err := file.Tensor("grad." + p.Name)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, p.Len)
		if err := tr.Device().Download(got, p.Buffer); err != nil {
			t.Fatal(err)
		}
		compare(t, p.Name, got, want, 2e-5)
	}
	tr.ClearGradients()
}

// goldenTraining trains on, and holds losses and norms of gradients to tolerances.
func goldenTraining(t *testing.T, tr *gpu.Trainer, g golden, loss, norm float64) {
	t.Helper()
	o, err := tr.NewAdamW(gpu.AdamWConfig{
		LR: 2e-2, MinLR: 2e-3, Warmup: 3, Total: 10, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Clip: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range g.Losses {
		got := g.loss(t, tr)
		u, err := o.Update()
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(got-want) <= loss*math.Abs(want) && math.Abs(u.Norm-g.Norms[i]) <= norm*g.Norms[i]) {
			t.Errorf("update %d: loss %.7g and norm %.5g, want %.7g and %.5g", i+1, got, u.Norm, want, g.Norms[i])
		}
	}
}
