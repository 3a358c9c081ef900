package gpu_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/reference"
)

// trainSteps makes n updates on batches that the seed decides.
func trainSteps(tb testing.TB, tr *gpu.Trainer, o *gpu.AdamW, from, to int) {
	tb.Helper()
	for i := from; i < to; i++ {
		rng := rand.New(rand.NewPCG(uint64(i), 5))
		gradients(tb, tr, batchOf(randomTokens(rng, 20, tr.Vocab), randomTokens(rng, 9, tr.Vocab)))
		if _, err := o.Update(); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestResume: training saved after three updates goes on, in another program,
// bit for bit, with moments in bfloat16, too, where a device has them.
func TestResume(t *testing.T) {
	for _, dev := range exactDevices(t) {
		for _, adapter := range []string{"", "act"} {
			t.Run(nameOf(dev)+" "+adapter, func(t *testing.T) { resume(t, dev, adapter, gpu.F32) })
			if _, ok := dev.(gpu.HalfMoments); ok {
				t.Run(nameOf(dev)+" half moments "+adapter, func(t *testing.T) { resume(t, dev, adapter, gpu.BF16) })
			}
		}
	}
}

func resume(t *testing.T, dev gpu.Device, adapter string, moments gpu.DType) {
	t.Helper()
	dir := t.TempDir()
	config := gpu.TrainerConfig{}
	m := newModel(t, dev, tiny(gpu.Qwen3, true))
	params := m.Params
	if adapter != "" {
		a, err := m.AddAdapter(adapter, gpu.AdapterConfig{Rank: 4, Alpha: 8, Targets: []string{"q_proj", "down_proj"}}, 3)
		if err != nil {
			t.Fatal(err)
		}
		params, config.Adapters = a.Params, []string{adapter}
		if err := m.Save(dir, gpu.F32); err != nil {
			t.Fatal(err)
		}
	}
	tr := newTrainer(t, m, config)
	schedule := gpu.DefaultAdamW(1e-2)
	schedule.Warmup, schedule.Total, schedule.Moments = 2, 8, moments
	o, err := tr.NewAdamW(schedule)
	if err != nil {
		t.Fatal(err)
	}
	trainSteps(t, tr, o, 0, 3)
	saveAll(t, m, o, adapter, dir)
	trainSteps(t, tr, o, 3, 6)
	want := download(t, dev, params)

	m2, err := gpu.Load(dev, dir, gpu.LoadConfig{Trainable: adapter == ""})
	if err != nil {
		t.Fatal(err)
	}
	defer m2.Close()
	params = m2.Params
	if adapter != "" {
		a, err := m2.LoadAdapter(adapter, filepath.Join(dir, adapter))
		if err != nil {
			t.Fatal(err)
		}
		params = a.Params
	}
	tr2 := newTrainer(t, m2, config)
	o2, err := tr2.NewAdamW(schedule)
	if err != nil {
		t.Fatal(err)
	}
	if err := o2.Restore(filepath.Join(dir, "optimizer.safetensors")); err != nil {
		t.Fatal(err)
	}
	trainSteps(t, tr2, o2, 3, 6)
	if !slices.Equal(download(t, dev, params), want) {
		t.Error("resumed training has other parameters")
	}
}

func saveAll(t *testing.T, m *gpu.Model, o *gpu.AdamW, adapter, dir string) {
	t.Helper()
	err := o.Save(filepath.Join(dir, "optimizer.safetensors"))
	if a, ok := m.Adapter(adapter); ok {
		err = errors.Join(err, a.Save(filepath.Join(dir, adapter)))
	} else {
		err = errors.Join(err, m.Save(dir, gpu.F32))
	}
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.*.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// A device that keeps moments in float32 alone says so.
func TestHalfMomentsRefused(t *testing.T) {
	m := newModel(t, reference.New(reference.Single), tiny(gpu.Qwen3, true))
	c := gpu.DefaultAdamW(1e-2)
	c.Moments = gpu.BF16
	if _, err := newTrainer(t, m, gpu.TrainerConfig{}).NewAdamW(c); err == nil || !strings.Contains(err.Error(), "float32 only") {
		t.Errorf("moments in bfloat16 on the reference: %v", err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	dev := reference.New(reference.Single)
	m := newModel(t, dev, tiny(gpu.Qwen3, true))
	o, err := newTrainer(t, m, gpu.TrainerConfig{}).NewAdamW(gpu.DefaultAdamW(1e-2))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := m.Save(dir, gpu.F32); err != nil {
		t.Fatal(err)
	}
	if err := o.Restore(filepath.Join(dir, "model.safetensors")); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("restored an optimiser from weights: %v", err)
	}
	if err := o.Restore(filepath.Join(dir, "none.safetensors")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("restored an optimiser from no file: %v", err)
	}
}

// TestUpdateRefusesNaN: a gradient that is not finite moves nothing and is named.
func TestUpdateRefusesNaN(t *testing.T) {
	for _, dev := range exactDevices(t) {
		m := newModel(t, dev, tiny(gpu.Qwen3, true))
		tr := newTrainer(t, m, gpu.TrainerConfig{})
		o, err := tr.NewAdamW(gpu.DefaultAdamW(1e-2))
		if err != nil {
			t.Fatal(err)
		}
		before := download(t, dev, m.Params)
		b := batchOf([]int32{1, 2, 3, 4})
		score(t, tr, b)
		if err := tr.Backward([]float32{1, float32(math.NaN()), 1}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Update(); !errors.Is(err, gpu.ErrNotFinite) || !strings.Contains(err.Error(), "weight") {
			t.Errorf("%s: got %v, want ErrNotFinite with a tensor's name", dev.Name(), err)
		}
		if !slices.Equal(before, download(t, dev, m.Params)) || o.Updates() != 0 {
			t.Errorf("%s: parameters or the count moved", dev.Name())
		}
		score(t, tr, b)
		if err := tr.Backward([]float32{1, 1, 1}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Update(); err != nil {
			t.Errorf("%s: the update after a refused one: %v", dev.Name(), err)
		}
	}
}

func TestRate(t *testing.T) {
	c := gpu.AdamWConfig{LR: 1, MinLR: 0.2, Warmup: 4, Total: 12}
	for _, tc := range []struct {
		n      int
		want   float64
		reason string
	}{
		{0, 0.25, "the first update already moves"},
		{3, 1, "the last of the warm-up"},
		{4, 1, "the cosine begins at its top"},
		{8, 0.6, "half way down"},
		{12, 0.2, "the end"},
		{1000, 0.2, "after the end"},
	} {
		if got := c.Rate(tc.n); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("rate of update %d is %v, want %v: %s", tc.n, got, tc.want, tc.reason)
		}
	}
}
