package train_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/grpo"
	"understudy/envace/train"
)

// Every value of the paper's setting is pinned: a recipe that drifts reproduces nothing.
func TestPaperRecipes(t *testing.T) {
	t.Parallel()
	common := train.Shape{KVHeads: 8, Head: 128, Context: 40960, Vocabulary: 151936, Theta: 1e6}
	big, small := common, common
	big.Base, big.Layers, big.Width, big.Hidden, big.Heads, big.Untied = "Qwen/Qwen3-8B", 36, 4096, 12288, 32, true
	small.Base, small.Layers, small.Width, small.Hidden, small.Heads = "Qwen/Qwen3-1.7B", 28, 2048, 6144, 16
	for name, shape := range map[string]train.Shape{"paper-qwen3-8b": big, "paper-qwen3-1.7b": small} {
		got, err := train.ReadRecipe(name)
		if err != nil {
			t.Fatal(err)
		}
		want := train.Recipe{
			Name: name, About: got.About, Format: "chat", Model: shape, Data: train.Data{Source: "cm2", Train: 470 * 16, Heldout: 100},
			Rollout: train.Rollout{
				Prompts: 16, Rollouts: 4, Temperature: 1, Turns: 30, ParallelCalls: 8, PromptTokens: 12000, ResponseTokens: 8000,
				Errors: envace.ErrorContinue, MaskOverlong: true, Examples: 3,
			},
			Reward:    train.Reward{Grader: "judge", Judge: "Qwen3-30B-A3B", JudgeTemperature: .6, MaxUnknown: .25, CheckEvery: 10, CheckRollouts: 4, Repeats: 5},
			Baseline:  train.Baseline{Weighting: grpo.ByOutput},
			Loss:      train.Loss{ClipLow: .2, ClipHigh: .2, KL: 1e-4, Estimator: grpo.K3, Updates: 1},
			Optimizer: train.Optimizer{LearningRate: 1e-6, Beta1: .9, Beta2: .999, Decay: .01, Clip: 1},
			Steps:     470, MicroTokens: 20000, GradientCheckpoints: true,
			Checkpoints: train.Checkpoint{Every: 50, Rule: "last"}, Evaluation: train.Evaluation{Every: 10, Tasks: 100, Samples: 4}, Scale: "16 H20 GPUs",
		}
		if got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	if !slices.Equal(train.Names(), []string{"demo", "paper-qwen3-1.7b", "paper-qwen3-8b", "tiny"}) {
		t.Errorf("the recipes are %v", train.Names())
	}
}

// Checkpoints are of a recipe's digest: a new key of recipes must leave that of the
// recipes before it as it was.
func TestTheTinyRecipeIsTheSame(t *testing.T) {
	t.Parallel()
	r, err := train.ReadRecipe("tiny")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Digest(); err != nil || got.String() != "d625369bd534bf43b09b5c130dc4fa7318751a5b56a3e57cfb67c4bd4e01cb47" {
		t.Errorf("its digest is %s, %v: runs of before would not go on; give the new key omitempty", got, err)
	}
}

// Where the rules of answers lie is no part of a recipe's identity; what they say is
// compared by itself.
func TestRulesOfARecipeAreFiles(t *testing.T) {
	t.Parallel()
	r, err := train.ReadRecipe("tiny")
	if err != nil {
		t.Fatal(err)
	}
	before, err := r.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r.Rules, r.PathPolicy = "rules.yaml", "paths.yaml"
	if after, err := r.Digest(); err != nil || after != before {
		t.Errorf("with files of rules the digest is %s, %v; want %s", after, err, before)
	}
}

func TestRecipeFaults(t *testing.T) {
	t.Parallel()
	tiny, err := os.ReadFile("recipes/tiny.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ from, to, want, reason string }{
		{"rollouts: 8", "rollouts: 1", "no baseline", "a lone rollout has nothing to be compared with"},
		{"weighting: output", "weighting: token", "weighting is output or trajectory", "an unknown word"},
		{"kl_estimator: k3", "kl_estimator: k4", "k1, k2 or k3", "an unknown estimator"},
		{"steps: 150", "step: 150", "step", "a misspelt key"},
		{"rule: last", "rule: best", "decided before the run", "a checkpoint picked by its result"},
		{"format: tiny", "format: chat", "checklist of the transcript", "a grader of another format"},
		{"source: environment", "source: cm2", "tasks of cm2 have none", "tasks that do not belong to the environment"},
		{"reward: {grader: checklist}", "reward: {grader: judge}", "needs checklists", "a judge without criteria"},
		{"errors: continue", "errors: continue\n  thinking_seen: true", "for the chat format", "thinking that there is none of"},
		{"reward: {grader: checklist}", "reward: {grader: checklist, check_rollouts: 2, repeats: 1}", "at least 2", "one answer cannot flip"},
		{"name: tiny", "name: ../../etc", "name: \"../../etc\"", "a name that leads out of the folder of runs"},
		{"temperature: 1.0", "temperature: .inf", "rollout.temperature: +Inf is not finite", "no probabilities are left"},
		{"kl: 1e-3", "kl: .nan", "loss.kl: NaN is not finite", "a number that compares with nothing"},
		{"train: 4000", "train: 0", "data: train is above 0", "nothing to train on"},
		{"train: 4000", "train: -5", "data.train: -5 is negative", "fewer tasks than none"},
		{"heldout: 400", "heldout: 5000000000", "data.heldout: 5000000000 is more than", "tasks that no memory holds"},
		{"prompts: 16", "prompts: 9999999", "more than the 65536 that a step holds", "rollouts that no memory holds"},
		{"tasks: 400, samples: 1", "tasks: -400, samples: 1", "evaluation.tasks: -400 is negative", "an evaluation of fewer tasks than none"},
		{"batch: 32", "batch: 0", "warm_start: batch is 1 to", "a warm start without demonstrations"},
		{"explore: 0.5", "explore: 5", "are shares", "a share over 1"},
		{"micro_tokens: 4096", "micro_tokens: 255", "255 are less than the 256 that a row may have", "a run that would end at its first long rollout"},
		{"steps: 150", "steps: 150\nmode: quick", "mode is exact or fast", "an unknown mode"},
		{"steps: 150", "steps: 150\nmode: fast", "importance_cap is above 0 in fast mode", "rollouts of other sums, uncorrected"},
		{"clip: 1.0}", "clip: 1.0, moments: half}", "moments are float32 or bfloat16", "a type that no device keeps moments in"},
		{"clip_low: 0.2", "clip_low: 1.5", "clip", "a clip that lets the ratio go below 0"},
	}
	for _, test := range tests {
		path := filepath.Join(t.TempDir(), "r.yaml")
		if err := os.WriteFile(path, []byte(strings.Replace(string(tiny), test.from, test.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := train.ReadRecipe(path)
		if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.reason, err)
		}
	}
	if _, err := train.ReadRecipe("/dev/zero"); audit.ErrorCode(err) != audit.CodeNotFound || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a recipe without end: %v", err)
	}
	if _, err := train.ReadRecipe("big"); audit.ErrorCode(err) != audit.CodeNotFound || !strings.Contains(audit.ErrorHint(err), "tiny") {
		t.Errorf("a recipe that is not there: %v", err)
	}
}
