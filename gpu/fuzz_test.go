package gpu_test

import (
	"testing"

	"understudy/gpu"
	"understudy/gpu/reference"
)

// FuzzStep: whatever the numbers of a step are, it is refused or runs within its
// memory; the reference panics on any index outside.
func FuzzStep(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{0, 1, 2}, []byte{0, 1, 2}, []byte{0, 0, 0}, []byte{0, 1}, []byte{2})
	f.Add([]byte{40}, []byte{17}, []byte{200}, []byte{1}, []byte{255}, []byte{0, 9})
	m, err := gpu.NewRandom(reference.New(reference.Single), tiny(gpu.Qwen3, true), 1)
	if err != nil {
		f.Fatal(err)
	}
	r, err := m.NewRunner(gpu.RunnerConfig{Pages: 3, Rows: 8, Wanted: 4, Sequences: 2, Context: 40})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tokens, positions, slots, sequences, table, wanted []byte) {
		s := &gpu.Step{
			Tokens: signed(tokens), Positions: signed(positions), Slots: signed(slots), Sequences: signed(sequences),
			Tables: [][]int32{signed(table), {2, 1}}, Wanted: signed(wanted),
		}
		var out gpu.Logits
		if err := r.Step(s, &out); err == nil && len(out.Values) != len(wanted)*m.Vocab {
			t.Errorf("%d logits for %d wanted rows", len(out.Values), len(wanted))
		}
	})
}

// FuzzBatch is FuzzStep for training.
func FuzzBatch(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5}, []byte{3, 2}, []byte{}, []byte{0, 1, 3}, []byte{2, 3, 5})
	f.Add([]byte{1, 2, 3, 4, 5}, []byte{3, 1, 1}, []byte{255, 0, 0}, []byte{2, 2, 3}, []byte{2, 3, 5})
	f.Add([]byte{1}, []byte{255, 2}, []byte{0}, []byte{0, 0}, []byte{99, 1})
	m, err := gpu.NewRandom(reference.New(reference.Single), tiny(gpu.Llama, false), 1)
	if err != nil {
		f.Fatal(err)
	}
	tr, err := m.NewTrainer(gpu.TrainerConfig{Tokens: 12, Targets: 6, LogitRows: 2, Expanded: 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tokens, lengths, parents, rows, targets []byte) {
		b := &gpu.Batch{Tokens: signed(tokens), Lengths: signed(lengths), Rows: signed(rows), Targets: signed(targets)}
		if len(parents) > 0 {
			b.Parents = signed(parents)
		}
		if err := tr.Forward(b, &gpu.Scores{}); err != nil {
			return
		}
		if err := tr.Backward(make([]float32, len(rows)), nil); err != nil {
			t.Error(err)
		}
	})
}

// signed reads bytes above 250 as small negative numbers.
func signed(data []byte) []int32 {
	list := make([]int32, len(data))
	for i, x := range data {
		list[i] = int32(x)
		if x > 250 {
			list[i] -= 256
		}
	}
	return list
}
