package gpu_test

import (
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
)

// What is promised to be needed is what is then allocated.
func TestTrainingBytes(t *testing.T) {
	t.Parallel()
	c := gpu.Config{
		Type: gpu.Qwen3, Layers: 3, Width: 32, Hidden: 48, Vocab: 70, Context: 64, Heads: gpu.Heads{H: 4, G: 2, D: 8},
		Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, BOS: -1,
	}
	device, err := host.New(host.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	m, err := gpu.NewRandom(device, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	for _, how := range []gpu.TrainerConfig{{Tokens: 40}, {Tokens: 40, Checkpoint: true, Expanded: 80}, {Tokens: 64, Targets: 7, ScoreOnly: true}} {
		trainer, err := m.NewTrainer(how)
		if err != nil {
			t.Fatal(err)
		}
		want := trainer.Bytes()
		if !how.ScoreOnly {
			want -= 4 * int64(m.Params.Values.Len) // gradients, each aligned
		}
		if got := c.TrainingBytes(how); got != want {
			t.Errorf("%+v: %d bytes, allocated are %d", how, got, want)
		}
		trainer.Free()
	}
	// Of a training with activations in BF16, a layer's take two bytes less each, and so do their gradients; the
	// residual, sums and what several products add to do not.
	saving := gpu.TrainerConfig{Tokens: 64, Targets: 16, Expanded: 128}
	whole := c.TrainingBytes(saving)
	saving.Activations = gpu.BF16
	const queries, keys = 4 * 8, 2 * 8
	const layer = 2*32 + (3*queries + 3*keys) + 3*48 // n1, n2; q, qr, att, k, kr, v; gate, up, h
	const grads = 3*queries + 3*keys + 3*48
	const tree = 4*queries + 4*keys // q, out, dout, dq; k, v, dk, dv
	if got, want := whole-c.TrainingBytes(saving), int64(2*(64*(3*layer+grads)+128*tree+16*32)); got != want {
		t.Errorf("activations in BF16 save %d bytes, want %d", got, want)
	}
	rollout := gpu.RunnerConfig{Pages: 8, Rows: 32, Wanted: 16, Sequences: 3, Context: 40}
	whole = c.RolloutBytes(rollout)
	rollout.Activations = gpu.BF16
	if got, want := whole-c.RolloutBytes(rollout), int64(2*(32*layer+16*32)); got != want {
		t.Errorf("activations in BF16 save %d bytes of rollouts, want %d", got, want)
	}
	runner := gpu.RunnerConfig{Pages: 9, Rows: 20, Wanted: 5, Sequences: 3, Context: 40}
	r, err := m.NewRunner(runner)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.RolloutBytes(runner), r.Bytes(); got != want {
		t.Errorf("rollouts: %d bytes, allocated are %d", got, want)
	}
	r.Free()
	adapter := gpu.AdapterConfig{Rank: 3, Alpha: 1, Targets: []string{"q_proj", "down_proj"}}
	a, err := m.AddAdapter("a", adapter, 1)
	if err != nil {
		t.Fatal(err)
	}
	scoring := gpu.TrainerConfig{Tokens: 40, ScoreOnly: true}
	scorer, err := m.NewTrainer(scoring)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.TrainingBytes(scoring, adapter), scorer.Bytes(); got != want {
		t.Errorf("scoring with an adapter: %d bytes, allocated are %d", got, want)
	}
	scorer.Free()
	if r, err = m.NewRunner(runner); err != nil {
		t.Fatal(err)
	}
	if got, want := c.RolloutBytes(runner, adapter), r.Bytes(); got != want {
		t.Errorf("rollouts with an adapter: %d bytes, allocated are %d", got, want)
	}
	r.Free()
	held := 0
	for _, x := range a.Params.Tensors {
		held += x.Len
	}
	if got, err := c.AdapterParameters(adapter); err != nil || got != int64(held) {
		t.Errorf("an adapter has %d parameters, %v: there are %d", got, err, held)
	}
	sum := int64(0)
	for _, x := range m.Params.Tensors {
		sum += int64(x.Len)
	}
	if got := c.Parameters(); got != sum {
		t.Errorf("%d parameters, there are %d", got, sum)
	}
	real8b := gpu.Config{Type: gpu.Qwen3, Layers: 36, Width: 4096, Hidden: 12288, Vocab: 151936, Heads: gpu.Heads{H: 32, G: 8, D: 128}}
	if n := real8b.Parameters(); n != 8_190_735_360 {
		t.Errorf("Qwen3-8B has %d parameters", n)
	}
}
