package main_test

import (
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"understudy/envace/cm2"
	"understudy/envace/judge"
	"understudy/envace/train"
	"understudy/gpu"
	"understudy/gpu/host"
	"understudy/gpu/tokenizer"
)

// randomModel is a model of random weights in Hugging Face's layout.
func randomModel(t *testing.T, dir string) {
	t.Helper()
	words, err := tokenizer.Load("../../gpu/tokenizer/testdata/qwen2.json")
	if err != nil {
		t.Fatal(err)
	}
	device, err := host.New(host.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	end, _ := words.ID("<|im_end|>")
	model, err := gpu.NewRandom(device, gpu.Config{
		Type: gpu.Qwen3, Layers: 1, Width: 32, Hidden: 48, Vocab: words.Size(), Context: 8192, Heads: gpu.Heads{H: 2, G: 1, D: 16},
		Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, BOS: -1, EOS: []int32{end},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(model.Save(dir, gpu.F32), words.Save(filepath.Join(dir, tokenizer.FileName)), model.Close()); err != nil {
		t.Fatal(err)
	}
}

// chatRecipe is the paper's recipe for a small model and few, short rollouts, with changes.
func chatRecipe(t *testing.T, path string, changes ...func(r *train.Recipe)) {
	t.Helper()
	r, err := train.ReadRecipe("paper-qwen3-1.7b")
	if err != nil {
		t.Fatal(err)
	}
	r.Name, r.Model = "small", train.Shape{Base: "a small one", Template: "qwen3"}
	r.Data.Train, r.Data.Heldout = 2, 1
	r.Rollout.Prompts, r.Rollout.Rollouts, r.Rollout.Turns, r.Rollout.PromptTokens, r.Rollout.ResponseTokens = 1, 2, 2, 6000, 6
	r.Rollout.MaskOverlong = false // nothing that random weights say ends by itself
	r.Steps, r.MicroTokens, r.Evaluation = 1, 8000, train.Evaluation{Every: 1, Tasks: 1, Samples: 1}
	r.Reward.CheckEvery = 1
	for _, change := range changes {
		change(&r)
	}
	text, err := yaml.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A recipe in the chat format trains the model of a folder on a file of conversations,
// graded by a judge's server, by the program that a user starts; what lacks is said.
func TestTrainChat(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	randomModel(t, filepath.Join(dir, "model"))
	chatRecipe(t, filepath.Join(dir, "small.yaml"))
	rows, err := io.ReadAll(cm2.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"rows.jsonl": string(rows), "bad.jsonl": string(rows) + `{"uuid":"x"}` + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(judge.Scripted(judge.ByHash))
	t.Cleanup(server.Close)
	database := postgres.URL(t)
	trains := func(args ...string) result {
		return run(t, program(t, dir, nil, append([]string{"train", "--recipe", "small.yaml", "--out", "runs", "--threads", "1", "--database-url", database}, args...)...))
	}
	for _, test := range []struct {
		args         []string
		status       int
		text, remedy string
	}{
		{[]string{"--dry-run", "--arm", "grpo-simulator"}, 3, "neither the model's folder nor its dimensions", "--model-dir"},
		{[]string{"--dry-run", "--data", "bad.jsonl", "--model-dir", "model"}, 3, "line 5, row 5 (x): its tools are no list", "--skip-bad-rows"},
		{[]string{"--dry-run", "--arm", "grpo-simulator", "--data", "bad.jsonl", "--skip-bad-rows", "--model-dir", "model"}, 3, "has no simulator", "--policy"},
		{[]string{"--dry-run", "--judge", "nowhere", "--model-dir", "model"}, 3, `policy URL "nowhere"`, "base URL"},
		{[]string{"--data", "rows.jsonl", "--model-dir", "model"}, 3, "graded by a judge", "--judge"},
	} {
		if got := trains(test.args...); got.status != test.status || !strings.Contains(got.stderr, test.text) || !strings.Contains(got.stderr, test.remedy) {
			t.Errorf("%v: %+v, want %q and %q", test.args, got, test.text, test.remedy)
		}
	}
	got := trains("--data", "rows.jsonl", "--model-dir", "model", "--judge", server.URL)
	for _, want := range []string{"step 1/1", "there is no environment to execute in", "imagined"} {
		if got.status != 0 || !strings.Contains(got.stdout, want) {
			t.Fatalf("%+v lacks %q", got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "envace-s1", "step-000001", "policy", "config.json")); err != nil {
		t.Errorf("no checkpoint: %v", err)
	}
}
