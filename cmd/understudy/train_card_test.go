package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/audit"
	main "understudy/cmd/understudy"
	"understudy/envace/train"
	"understudy/gpu"
)

// smallRecipe is a recipe of one step of a very small policy, with changes.
func smallRecipe(t *testing.T, path string, changes ...string) {
	t.Helper()
	text := `name: small
about: One step of a policy that knows nothing.
format: tiny
environment: retail-mini@1
model: {layers: 1, width: 16, hidden: 24, heads: 2, kv_heads: 1, head: 8, context: 256}
data: {source: environment, train: 8, train_seed: 11, heldout: 2, heldout_seed: 12}
rollout: {prompts: 1, rollouts: 2, temperature: 1.0, turns: 1, parallel_calls: 1, prompt_tokens: 256, response_tokens: 6, errors: continue}
reward: {grader: checklist}
baseline: {weighting: output}
loss: {clip_low: 0.2, clip_high: 0.2, kl: 1e-3, kl_estimator: k3, updates: 1, importance_cap: 2}
calibration: {lambda: 1.0, false_success: 0.5}
optimizer: {learning_rate: 1e-4, warmup: 5, beta1: 0.9, beta2: 0.95, decay: 0.01, clip: 1.0, moments: bfloat16}
mode: fast
steps: 1
micro_tokens: 512
gradient_checkpoints: true
warm_start: {steps: 1, batch: 1, learning_rate: 2e-3, until: 1, every: 1, tasks: 1, explore: 0.5}
checkpoints: {every: 1, rule: last}
evaluation: {every: 0, tasks: 1, samples: 1, canaries: 0}
`
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("the recipe has no %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A policy trains on a card in fast mode, with moments in bfloat16 and checkpoints of activations: what
// it takes of the card's memory is printed before the first step. The CPU has no such moments and says so.
func TestTrainOnCard(t *testing.T) {
	t.Parallel()
	driver := emulatedCard(t)
	dir, database := folder(t), postgres.URL(t)
	smallRecipe(t, filepath.Join(dir, "small.yaml"))
	trains := func(args ...string) result {
		return run(t, program(t, dir, []string{"LD_LIBRARY_PATH=" + driver},
			append([]string{"train", "--recipe", "small.yaml", "--threads", "1", "--database-url", database}, args...)...))
	}
	if got := trains(); got.status != 3 || !strings.Contains(got.stderr, "keeps moments in bfloat16, and host") || !strings.Contains(got.stderr, "leave optimizer.moments out") {
		t.Errorf("on the CPU: %+v", got)
	}
	got := trains("--device", "cuda")
	for _, want := range []string{
		"memory that the training takes of cuda (CPU emulator, of which 10", "moments of AdamW", "room to check cuBLASLt's products",
		"the reference policy: weights, as in their files", "in all", "step 1/1",
	} {
		if got.status != 0 || !strings.Contains(got.stdout, want) {
			t.Fatalf("%+v lacks %q", got, want)
		}
	}
	steps, err := os.ReadFile(filepath.Join(dir, "runs", "small", "envace-s1", "metrics.jsonl"))
	if err != nil || !strings.Contains(string(steps), "sampling_gap") || !strings.Contains(string(steps), "importance_weight") {
		t.Errorf("the metrics lack the correction of fast mode: %s, %v", steps, err)
	}
	dry := run(t, program(t, dir, []string{"LD_LIBRARY_PATH=" + driver}, "train", "--recipe", "paper-qwen3-1.7b", "--dry-run", "--device", "cuda:7"))
	for _, want := range []string{"memory that a real run takes of cuda:7:", "12.8 GiB  moments of AdamW", "what cuda:7 has is not known: card 7: this machine has 1"} {
		if dry.status != 3 || !strings.Contains(dry.stdout, want) {
			t.Errorf("a dry run for a card that is not there: %+v lacks %q", dry, want)
		}
	}
	dry = run(t, program(t, dir, []string{"LD_LIBRARY_PATH=" + driver}, "train", "--recipe", "paper-qwen3-1.7b", "--dry-run", "--device", "cuda:7", "--arm", "per-role"))
	for _, want := range []string{"12.8 GiB  act: moments of AdamW", "12.8 GiB  rehearse: moments of AdamW"} {
		if !strings.Contains(dry.stdout, want) {
			t.Errorf("a dry run of a policy a role: %+v lacks %q", dry, want)
		}
	}
	smallRecipe(t, filepath.Join(dir, "small.yaml"), "importance_cap: 2", "importance_cap: 0")
	if got := trains("--device", "cuda"); got.status != 3 || !strings.Contains(got.stderr, "importance_cap is above 0 in fast mode") {
		t.Errorf("fast mode without its correction: %+v", got)
	}
}

// What does not fit on a card is refused with what each change would save.
func TestTrainingThatDoesNotFit(t *testing.T) {
	t.Parallel()
	r, err := train.ReadRecipe("paper-qwen3-1.7b")
	if err != nil {
		t.Fatal(err)
	}
	shape, err := r.Model.Real()
	if err != nil {
		t.Fatal(err)
	}
	r.GradientCheckpoints = false
	plans, err := train.Config{Recipe: r}.PlansOf(shape, gpu.BF16, gpu.BF16)
	if err != nil {
		t.Fatal(err)
	}
	plan := plans[0]
	err = main.RefusePlan(40<<30, plan)
	refusal, ok := errors.AsType[*audit.Error](err)
	if !ok || refusal.Code != audit.CodeLimit || !strings.Contains(refusal.Message, "GiB and cuda has 40.0 GiB free") {
		t.Fatalf("on 40 GiB: %v", err)
	}
	for _, want := range []string{"gradient_checkpoints: true saves", "optimizer.moments: bfloat16 saves 6.4 GiB", "half of micro_tokens, with prompt_tokens and response_tokens of half their length (other rollouts), saves", "half of --kv-memory saves 0.5 GiB", "kl: 0 (another objective) saves"} {
		if !strings.Contains(refusal.Hint, want) {
			t.Errorf("the hint lacks %q: %s", want, refusal.Hint)
		}
	}
	if err := main.RefusePlan(1<<40, plan); err != nil {
		t.Errorf("on a TiB: %v", err)
	}
	whole, err := main.PlanTotal(plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := main.RefusePlan(2*whole, plan, plan); err != nil {
		t.Errorf("two parameter sets on a card with room for two: %v", err)
	}
	if err := main.RefusePlan(2*whole-1, plan, plan); audit.ErrorCode(err) != audit.CodeLimit || !strings.Contains(audit.ErrorHint(err), "another arm, of one parameter set, saves") {
		t.Errorf("two parameter sets on a card with room for less than two: %v, %s", err, audit.ErrorHint(err))
	}
}

// A training whose plan does not fit, or whose card is not there, is refused before anything that takes long: before its
// ledger is opened and its tasks are made or, where the words of the tasks are the model's, before its warm start.
func TestPlanComesFirst(t *testing.T) {
	t.Parallel()
	driver := emulatedCard(t)
	dir, database := folder(t), postgres.URL(t)
	randomModel(t, filepath.Join(dir, "model"))
	chatRecipe(t, filepath.Join(dir, "chat.yaml"), func(r *train.Recipe) { r.MicroTokens = 10_000_000 })
	smallRecipe(t, filepath.Join(dir, "small.yaml"), "micro_tokens: 512", "micro_tokens: 10000000", "hidden: 24", "hidden: 40000")
	chatRecipe(t, filepath.Join(dir, "paper.yaml")) // one set of its parameters fits with 600 GiB of keys and values, two do not
	smallRecipe(t, filepath.Join(dir, "tiny.yaml"))
	shape, err := os.ReadFile(filepath.Join(dir, "model", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	wide := strings.Replace(string(shape), `"intermediate_size": 48`, `"intermediate_size": 40000`, 1)
	if err := os.WriteFile(filepath.Join(dir, "model", "config.json"), []byte(wide), 0o600); err != nil || wide == string(shape) {
		t.Fatal("the model's width is not where it is looked for", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty", "config.json"), shape, 0o600); err != nil {
		t.Fatal(err)
	}
	const nowhere, plan = "postgres://127.0.0.1:1/nowhere", "memory that the training takes of cuda (CPU emulator"
	for name, test := range map[string]struct {
		args                 []string
		stdout, text, remedy string
	}{
		"a model's folder": {
			[]string{"--recipe", "chat.yaml", "--model-dir", "model", "--device", "cuda", "--database-url", nowhere},
			plan, "GiB and cuda has 1024.0 GiB free", "half of micro_tokens",
		},
		"a model's folder without weights": {
			[]string{"--recipe", "chat.yaml", "--model-dir", "empty", "--device", "cuda", "--database-url", nowhere},
			"", "read the model in empty", "config.json, tokenizer.json and *.safetensors",
		},
		"words of the tasks": {
			[]string{"--recipe", "small.yaml", "--device", "cuda", "--database-url", database},
			plan, "GiB and cuda has 1024.0 GiB free", "half of micro_tokens",
		},
		"a card that is not there": {
			[]string{"--recipe", "small.yaml", "--device", "cuda:7", "--database-url", nowhere},
			"", "card 7: this machine has 1", "--device cpu needs no card",
		},
		"no such device": {
			[]string{"--recipe", "small.yaml", "--device", "gpu", "--database-url", nowhere},
			"", "--device gpu", "write cpu, cuda",
		},
		"no such device of a dry run": {
			[]string{"--recipe", "paper-qwen3-1.7b", "--dry-run", "--device", "cuda0"},
			"", "--device cuda0", "write cpu, cuda",
		},
		"a negative arena": {
			[]string{"--recipe", "chat.yaml", "--model-dir", "model", "--device", "cuda", "--kv-memory", "-5", "--database-url", nowhere},
			"", `"-5" for flag -kv-memory`, "write whole MiB, from 0 to",
		},
		"an arena that no number of bytes is": {
			[]string{"--recipe", "chat.yaml", "--model-dir", "model", "--device", "cuda", "--kv-memory", "9223372036854775807", "--database-url", nowhere},
			"", `"9223372036854775807" for flag -kv-memory`, "write whole MiB, from 0 to",
		},
		"an arm of a sweep, with a model's folder": {
			[]string{"--recipe", "paper.yaml", "--model-dir", "model", "--kv-memory", "614400", "--sweep", "--arms", "envace,per-role", "--device", "cuda", "--database-url", nowhere},
			plan, "train per-role, seed 1: the training takes", "another arm, of one parameter set, saves",
		},
		"an arm of a sweep, with words of the tasks": {
			[]string{"--recipe", "tiny.yaml", "--kv-memory", "614400", "--sweep", "--arms", "envace,per-role", "--device", "cuda", "--database-url", database},
			plan, "train per-role, seed 1: the training takes", "another arm, of one parameter set, saves",
		},
	} {
		got := run(t, program(t, dir, []string{"LD_LIBRARY_PATH=" + driver}, append([]string{"train", "--threads", "1"}, test.args...)...))
		if got.status == 0 || test.stdout == "" && got.stdout != "" || !strings.Contains(got.stdout, test.stdout) || !strings.Contains(got.stderr, test.text) || !strings.Contains(got.stderr, test.remedy) {
			t.Errorf("%s: %+v, want %q, %q and %q", name, got, test.stdout, test.text, test.remedy)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("runs that were refused left %v, %v", left, err)
	}
	// A dry run says the same of a folder as the run; of one without weights, that they are bfloat16.
	trains := func(folder string, more ...string) result {
		return run(t, program(t, dir, []string{"LD_LIBRARY_PATH=" + driver}, append([]string{
			"train", "--recipe", "paper.yaml", "--model-dir", folder, "--device", "cuda", "--database-url", nowhere,
		}, more...)...))
	}
	whole := trains("model")
	_, parts, found := strings.Cut(whole.stdout, "are free):\n")
	if dry := trains("model", "--dry-run", "--judge", "nowhere"); !found || !strings.Contains(dry.stdout, parts) {
		t.Errorf("a run plans %+v, its dry run %+v", whole, dry)
	}
	if err := os.Rename(filepath.Join(dir, "model", "tokenizer.json"), filepath.Join(dir, "empty", "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	if dry := trains("empty", "--dry-run", "--judge", "nowhere"); strings.Contains(dry.stdout, parts) || !strings.Contains(dry.stdout, "the reference policy: weights, as in their files") {
		t.Errorf("a dry run without weights: %+v", dry)
	}
}
