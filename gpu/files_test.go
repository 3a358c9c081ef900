package gpu_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/reference"
	"understudy/gpu/safetensors"
)

// logitsOf is the logits of a fixed text.
func logitsOf(tb testing.TB, m *gpu.Model) []float32 {
	tb.Helper()
	r := newRunner(tb, m)
	defer r.Free()
	var s gpu.Step
	rowsOf(&s, randomTokens(rand.New(rand.NewPCG(1, 1)), 20, m.Vocab), 0, 20, []int32{1, 0})
	return slices.Clone(step(tb, r, &s).Values)
}

// TestSaveAndLoad: a saved model computes the same, mapped or copied, and
// saving it again gives the same bytes.
func TestSaveAndLoad(t *testing.T) {
	for _, dev := range devices(t) {
		for _, kind := range []gpu.DType{gpu.F32, gpu.BF16, gpu.F16} {
			t.Run(dev.Name()+" "+kind.String(), func(t *testing.T) {
				m := newModel(t, dev, tiny(gpu.Qwen3, false))
				dir, again := t.TempDir(), filepath.Join(t.TempDir(), "made")
				if err := m.Save(dir, kind); err != nil {
					t.Fatal(err)
				}
				mapped, err := gpu.Load(dev, dir, gpu.LoadConfig{})
				if err != nil {
					t.Fatal(err)
				}
				defer mapped.Close()
				copied, err := gpu.Load(dev, dir, gpu.LoadConfig{Trainable: true})
				if err != nil {
					t.Fatal(err)
				}
				defer copied.Close()
				a, b := logitsOf(t, mapped), logitsOf(t, copied)
				if !slices.Equal(a, b) {
					t.Error("mapped weights compute other bits than copied ones")
				}
				if kind == gpu.F32 && !slices.Equal(a, logitsOf(t, m)) {
					t.Error("float32 weights do not come back bit for bit")
				}
				clone, err := mapped.Clone()
				if err != nil {
					t.Fatal(err)
				}
				defer clone.Close()
				if !slices.Equal(a, logitsOf(t, clone)) {
					t.Error("a clone computes other bits")
				}
				if err := copied.Save(again, kind); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"config.json", "model.safetensors"} {
					if x, y := read(t, dir, name), read(t, again, name); x != y {
						t.Errorf("%s: saved again, it has other bytes", name)
					}
				}
			})
		}
	}
}

func read(tb testing.TB, dir, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func TestLoadRefuses(t *testing.T) {
	dev := reference.New(reference.Single)
	m := newModel(t, dev, tiny(gpu.Llama, false))
	for _, tc := range []struct {
		change func(list []safetensors.Tensor) []safetensors.Tensor
		want   []string
		reason string
	}{
		{func(l []safetensors.Tensor) []safetensors.Tensor { return l[1:] }, []string{"model.embed_tokens.weight", "not found"}, "a tensor is missing"},
		{func(l []safetensors.Tensor) []safetensors.Tensor {
			return append(l, zeros("model.layers.2.mlp.up_proj.weight", 20, 12))
		}, []string{"model.safetensors", "model.layers.2.mlp.up_proj.weight", "no place"}, "a layer more than the configuration says"},
		{func(l []safetensors.Tensor) []safetensors.Tensor {
			l[0] = zeros(l[0].Name, 12, 37)
			return l
		}, []string{"model.safetensors", "model.embed_tokens.weight", "shape [12 37]", "[37 12]"}, "transposed"},
		{func(l []safetensors.Tensor) []safetensors.Tensor {
			l[0] = zeros(l[0].Name, 37, 12)
			l[0].Type, l[0].Data = "I32", make([]byte, 4*37*12)
			return l
		}, []string{"model.embed_tokens.weight", "type I32"}, "integers"},
		{func(l []safetensors.Tensor) []safetensors.Tensor {
			l[0] = safetensors.FromFloat32s(l[0].Name, safetensors.F32, l[0].Shape, append(make([]float32, 37*12-1), float32(math.NaN())))
			return l
		}, []string{"model.safetensors", "model.embed_tokens.weight", "NaN"}, "a NaN makes every text nonsense"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			dir := t.TempDir()
			if err := m.Save(dir, gpu.F32); err != nil {
				t.Fatal(err)
			}
			file, err := safetensors.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			list := tc.change(slices.Clone(file.Tensors()))
			if err := safetensors.Save(dir, list, nil, 0); err != nil {
				t.Fatal(err)
			}
			for _, trainable := range []bool{false, true} {
				_, err = gpu.Load(dev, dir, gpu.LoadConfig{Trainable: trainable})
				for _, want := range tc.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("trainable=%t: got %v, want an error with %q", trainable, err, want)
					}
				}
			}
		})
	}
}

// A configuration that claims terabytes is refused by what the files hold, before
// memory is asked for.
func TestLoadRefusesClaims(t *testing.T) {
	dev := reference.New(reference.Single)
	dir := t.TempDir()
	m := newModel(t, dev, tiny(gpu.Llama, false))
	if err := m.Save(dir, gpu.F32); err != nil {
		t.Fatal(err)
	}
	claim := m.Config
	claim.Width, claim.Hidden, claim.Vocab, claim.Layers = 1<<17, 1<<19, 1<<21, 1<<10
	text, err := claim.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, trainable := range []bool{false, true} {
		_, err := gpu.Load(dev, dir, gpu.LoadConfig{Trainable: trainable})
		if err == nil || !strings.Contains(err.Error(), "model.embed_tokens.weight") {
			t.Errorf("trainable=%t: got %v, want an error that names the first tensor", trainable, err)
		}
	}
}

func zeros(name string, shape ...int) safetensors.Tensor {
	return safetensors.FromFloat32s(name, safetensors.F32, shape, make([]float32, shape[0]*shape[1]))
}
