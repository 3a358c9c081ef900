package gpu_test

import (
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
)

// TestMemoryIsRefused: what does not fit is said when it is planned, with its
// size.
func TestMemoryIsRefused(t *testing.T) {
	const budget = 1 << 20
	dev := newHost(t, host.Options{Threads: 1, Memory: budget})
	m := newModel(t, dev, tiny(gpu.Qwen3, true))
	for range 3 {
		_, err := m.NewRunner(gpu.RunnerConfig{Pages: 2000, Rows: 8, Wanted: 8, Sequences: 4, Context: 48})
		if err == nil || !strings.Contains(err.Error(), "2000 KV pages") || !strings.Contains(err.Error(), "MiB") {
			t.Errorf("a runner over the budget: got %v", err)
		}
		_, err = m.NewTrainer(gpu.TrainerConfig{Tokens: 4000})
		if err == nil || !strings.Contains(err.Error(), "4000 tokens a micro-batch") {
			t.Errorf("a trainer over the budget: got %v", err)
		}
	}
}

// TestRefusedMemoryIsGivenBack: wherever in making a trainer and its optimiser
// memory ends, what was taken until then is free again.
func TestRefusedMemoryIsGivenBack(t *testing.T) {
	made, refused := 0, 0
	for budget := int64(40 << 10); budget < 600<<10; budget += 11 << 10 {
		dev := newHost(t, host.Options{Threads: 1, Memory: budget})
		m := newModel(t, dev, tiny(gpu.Qwen3, true))
		if _, err := m.AddAdapter("act", gpu.AdapterConfig{Rank: 2, Alpha: 1}, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := m.AddAdapter("rehearse", gpu.AdapterConfig{Rank: 2, Alpha: 1}, 1); err != nil {
			t.Fatal(err)
		}
		for _, adapters := range [][]string{nil, {"act", "rehearse"}} {
			if err := makeAndFree(m, adapters); err != nil {
				refused++
			} else {
				made++
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := dev.Alloc(gpu.F32, int(budget/4)); err != nil {
			t.Errorf("of a budget of %d bytes some is lost: %v", budget, err)
		}
	}
	if made < 5 || refused < 5 {
		t.Errorf("%d made, %d refused: the budgets try too little", made, refused)
	}
}

func makeAndFree(m *gpu.Model, adapters []string) error {
	r, err := m.NewRunner(gpu.RunnerConfig{Pages: 8, Rows: 8, Wanted: 8, Sequences: 4, Context: 48})
	if err != nil {
		return err
	}
	defer r.Free()
	tr, err := m.NewTrainer(gpu.TrainerConfig{Tokens: 32, Expanded: 40, Adapters: adapters})
	if err != nil {
		return err
	}
	defer tr.Free()
	o, err := tr.NewAdamW(gpu.DefaultAdamW(1e-3))
	if err != nil {
		return err
	}
	o.Free()
	return nil
}
