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
)

// TestAdapter: a new adapter changes nothing, a trained one changes its rows
// only, comes back from files, and merged it computes the same.
func TestAdapter(t *testing.T) {
	for _, dev := range devices(t) {
		t.Run(dev.Name(), func(t *testing.T) {
			m := newModel(t, dev, tiny(gpu.Qwen3, true))
			a, err := m.AddAdapter("act", gpu.AdapterConfig{Rank: 3, Alpha: 6, Targets: []string{"q_proj", "v_proj", "down_proj"}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			one, two := randomTokens(rng, 12, m.Vocab), randomTokens(rng, 15, m.Vocab)
			plain := batchOf(one, two)
			adapted := batchOf(one, two)
			adapted.Adapters = []gpu.Span{{Adapter: "act", From: 12, To: 27}}
			tr := newTrainer(t, m, gpu.TrainerConfig{})
			base := score(t, tr, plain).LogProb
			if !slices.Equal(base, score(t, tr, adapted).LogProb) {
				t.Error("an adapter whose B is zero changes something")
			}
			roughen(t, a.Params, dev, 3)
			a.Changed()
			got := score(t, tr, adapted).LogProb
			if !slices.Equal(base[:11], got[:11]) || slices.Equal(base[11:], got[11:]) {
				t.Error("an adapter must change its own rows, and no others")
			}

			dir := t.TempDir()
			if err := a.Save(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := m.LoadAdapter("again", dir); err != nil {
				t.Fatal(err)
			}
			adapted.Adapters[0].Adapter = "again"
			if !slices.Equal(got, score(t, tr, adapted).LogProb) {
				t.Error("an adapter does not come back from its files")
			}

			if err := m.Merge("act"); err != nil {
				t.Fatal(err)
			}
			for i, x := range score(t, tr, plain).LogProb[11:] {
				if math.Abs(float64(x-got[11+i])) > 1e-5*(1+math.Abs(float64(x))) {
					t.Fatalf("merged: target %d has log-probability %v, beside the weights %v", i, x, got[11+i])
				}
			}
			if _, ok := m.Adapter("act"); ok {
				t.Error("a merged adapter is still there")
			}
		})
	}
}

func TestAdapterRefuses(t *testing.T) {
	m := newModel(t, reference.New(reference.Single), tiny(gpu.Qwen3, true))
	for _, tc := range []struct {
		config gpu.AdapterConfig
		want   string
		reason string
	}{
		{gpu.AdapterConfig{Rank: 0, Alpha: 1}, "rank 0", "no rank"},
		{gpu.AdapterConfig{Rank: 13, Alpha: 1}, "1..12", "more than the width"},
		{gpu.AdapterConfig{Rank: 2}, "alpha 0", "nothing would be added"},
		{gpu.AdapterConfig{Rank: 2, Alpha: 1, Targets: []string{"lm_head"}}, `"lm_head": targets are q_proj`, "no projection of a layer"},
	} {
		if _, err := m.AddAdapter("act", tc.config, 1); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
		}
	}
	a, err := m.AddAdapter("act", gpu.AdapterConfig{Rank: 2, Alpha: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ old, with, want string }{
		{`"LORA"`, `"IA3"`, `peft_type is "IA3"`},
		{`"none"`, `"all"`, `bias is "all"`},
		{`"peft_type"`, `"use_dora": true, "peft_type"`, "use_dora"},
		{`"peft_type"`, `"rank_pattern": {"q_proj": 4}, "peft_type"`, "rank_pattern"},
		{`"r": 2`, `"r": 4`, "shape"},
		{`"q_proj",`, ``, "no place"},
	} {
		dir := t.TempDir()
		if err := a.Save(dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "adapter_config.json")
		text := strings.Replace(read(t, dir, "adapter_config.json"), tc.old, tc.with, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.LoadAdapter("other", dir); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.with, err, tc.want)
		}
	}
}

// TestTrainerRefuses: what a trainer cannot do is said before it is tried.
func TestTrainerRefuses(t *testing.T) {
	dev := reference.New(reference.Single)
	m := newModel(t, dev, tiny(gpu.Qwen3, true))
	tr := newTrainer(t, m, gpu.TrainerConfig{Tokens: 8})
	for _, tc := range []struct {
		change func(b *gpu.Batch)
		want   string
		reason string
	}{
		{func(b *gpu.Batch) { *b = *batchOf(make([]int32, 9)) }, "9 tokens", "more than planned"},
		{func(b *gpu.Batch) { b.Lengths[0] = 3 }, "3 tokens together", "rows of no sequence"},
		{func(b *gpu.Batch) { b.Lengths = []int32{5, 0} }, "sequence 1 has 0", "an empty sequence"},
		{func(b *gpu.Batch) { b.Tokens[0] = 99 }, "token 99", "beyond the embedding"},
		{func(b *gpu.Batch) { b.Parents = []int32{0} }, "sequence 0 continues 0", "a circle"},
		{func(b *gpu.Batch) { b.Parents = []int32{-1, 0} }, "2 parents for 1 sequences", "ragged"},
		{func(b *gpu.Batch) { b.Parents = []int32{-1} }, "TrainerConfig.Expanded", "sharing was not planned"},
		{func(b *gpu.Batch) { b.Targets[0] = -1 }, "target -1", "no such token"},
		{func(b *gpu.Batch) { b.Targets = b.Targets[1:] }, "4 rows to score for 3 targets", "ragged"},
		{func(b *gpu.Batch) { b.Scale = []float32{1} }, "1 scales", "ragged"},
	} {
		b := batchOf([]int32{1, 2, 3, 4, 5})
		tc.change(b)
		if err := tr.Forward(b, &gpu.Scores{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
		}
	}
	if err := tr.Backward(nil, nil); err == nil {
		t.Error("backward without a forward was accepted")
	}
	dir := t.TempDir()
	if err := m.Save(dir, gpu.BF16); err != nil {
		t.Fatal(err)
	}
	mapped, err := gpu.Load(dev, dir, gpu.LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	if _, err := mapped.NewTrainer(gpu.TrainerConfig{Tokens: 8}); err == nil || !strings.Contains(err.Error(), "trainable") {
		t.Errorf("training of mapped weights: got %v", err)
	}
}

// TestAdapterOnMappedWeights: an adapter trains on weights that stay bfloat16 in
// their files as on float32 copies of them.
func TestAdapterOnMappedWeights(t *testing.T) {
	for _, dev := range exactDevices(t) {
		t.Run(nameOf(dev), func(t *testing.T) {
			dir := t.TempDir()
			if err := newModel(t, dev, tiny(gpu.Qwen3, false)).Save(dir, gpu.BF16); err != nil {
				t.Fatal(err)
			}
			var grads [2][]float32
			for i, trainable := range []bool{false, true} {
				m, err := gpu.Load(dev, dir, gpu.LoadConfig{Trainable: trainable})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				a, err := m.AddAdapter("act", gpu.AdapterConfig{Rank: 3, Alpha: 6}, 1)
				if err != nil {
					t.Fatal(err)
				}
				roughen(t, a.Params, dev, 3)
				tr := newTrainer(t, m, gpu.TrainerConfig{Adapters: []string{"act"}})
				b := batchOf(randomTokens(rand.New(rand.NewPCG(1, 1)), 30, m.Vocab))
				b.Adapters = []gpu.Span{{Adapter: "act", From: 0, To: 30}}
				gradients(t, tr, b)
				grads[i] = download(t, dev, tr.Gradients("act"))
			}
			if !slices.Equal(grads[0], grads[1]) {
				t.Error("mapped weights give other gradients than copied ones")
			}
		})
	}
}
