package gpu_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
	"understudy/gpu/tokenizer"
)

// smolGolden is gpu/testdata/smollm2_golden.json: what transformers computes.
type smolGolden struct {
	Texts []struct {
		Text   string      `json:"text"`
		IDs    []int32     `json:"ids"`
		Top    [][]int32   `json:"top"`
		Logits [][]float32 `json:"logits"`
		LSE    []float32   `json:"lse"`
	} `json:"texts"`
	Chats []struct {
		Prompt string  `json:"prompt"`
		IDs    []int32 `json:"ids"`
		Greedy []int32 `json:"greedy"`
		Answer string  `json:"answer"`
	} `json:"chats"`
}

// TestSmolLM2 compares a real model, which `make model-smollm2` makes and then tests:
// token ids, logits at every position, and greedy answers, with transformers' in float32.
func TestSmolLM2(t *testing.T) {
	dir := os.Getenv("UNDERSTUDY_SMOLLM2")
	if dir == "" {
		t.Skip("run by make model-smollm2: the model is not in the repository")
	}
	data, err := os.ReadFile("testdata/smollm2_golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g smolGolden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := host.New(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := gpu.Load(dev, dir, gpu.LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := m.NewRunner(gpu.RunnerConfig{Pages: 16, Rows: 128, Wanted: 128, Sequences: 1, Context: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	pages := make([]int32, 16)
	for i := range pages {
		pages[i] = int32(i)
	}
	for _, c := range g.Texts {
		if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q is %v, want %v", c.Text, got, c.IDs)
		}
		var s gpu.Step
		rowsOf(&s, c.IDs, 0, len(c.IDs), pages)
		out, worst := step(t, r, &s), 0.0
		for i, top := range c.Top {
			for j, id := range top {
				worst = max(worst, math.Abs(float64(out.Row(i)[id]-c.Logits[i][j])))
			}
			worst = max(worst, math.Abs(float64(out.LSE[i]-c.LSE[i])))
		}
		t.Logf("%q: largest difference of a logit %.2g", c.Text, worst)
		if !(worst < 5e-4) { // of logits around 20, rounded to 1e-4 in the file
			t.Errorf("%q: a logit is off by %.2g", c.Text, worst)
		}
	}
	for _, c := range g.Chats {
		if got := tok.Encode(c.Prompt); !slices.Equal(got, c.IDs) {
			t.Errorf("%q is %v, want %v", c.Prompt, got, c.IDs)
		}
		got := greedy(t, r, c.IDs, len(c.Greedy), pages)
		t.Logf("%q", tok.Decode(got, false))
		if !slices.Equal(got, c.Greedy) {
			t.Errorf("answers %q, want %q", tok.Decode(got, false), c.Answer)
		}
	}
}

// greedy continues a prompt by n tokens, each the likeliest.
func greedy(t *testing.T, r *gpu.Runner, prompt []int32, n int, pages []int32) []int32 {
	t.Helper()
	tokens, done := slices.Clone(prompt), 0
	for range n {
		var s gpu.Step
		rowsOf(&s, tokens, done, len(tokens), pages)
		done = len(tokens)
		out := step(t, r, &s)
		row := out.Row(len(s.Wanted) - 1)
		best := 0
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		tokens = append(tokens, int32(best))
	}
	return tokens[len(prompt):]
}
