package train

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/goccy/go-yaml"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/envace"
	"understudy/envace/grpo"
	"understudy/gpu"
)

//go:embed recipes/*.yaml
var recipes embed.FS

// Recipe is everything that a training depends on beside its arm and seed. Values
// that a file leaves out are zero: nothing is filled in silently.
type Recipe struct {
	Name        string      `yaml:"name"`
	About       string      `yaml:"about"`
	Format      string      `yaml:"format"`      // tiny, or chat: the model's own chat template
	Environment string      `yaml:"environment"` // name@version; tasks come from it, and evaluation executes in it
	Model       Shape       `yaml:"model"`
	Data        Data        `yaml:"data"`
	Rollout     Rollout     `yaml:"rollout"`
	Reward      Reward      `yaml:"reward"`
	Baseline    Baseline    `yaml:"baseline"`
	Loss        Loss        `yaml:"loss"`
	Calibration Calibration `yaml:"calibration"`
	Optimizer   Optimizer   `yaml:"optimizer"`
	Steps       int         `yaml:"steps"`
	// MicroTokens is how many tokens one forward and backward pass holds.
	MicroTokens int `yaml:"micro_tokens"`
	// GradientCheckpoints computes activations twice instead of keeping them.
	GradientCheckpoints bool       `yaml:"gradient_checkpoints"`
	WarmStart           WarmStart  `yaml:"warm_start"`
	Checkpoints         Checkpoint `yaml:"checkpoints"`
	Evaluation          Evaluation `yaml:"evaluation"`
	// Mode is exact, or fast: sums in any order, on a card by cuBLASLt. What was sampled is then scored
	// again before the first update, and loss.importance_cap corrects the difference, which is a metric.
	Mode string `yaml:"mode,omitempty"` // empty = exact
	// Rules and PathPolicy are files that say how answers are read and compared, where the settings of
	// those names say nothing; empty = the defaults. What they say has a digest of its own.
	Rules      string `yaml:"rules,omitempty"`
	PathPolicy string `yaml:"path_policy,omitempty"`
	// Scale says what the paper ran it on; nothing depends on it.
	Scale string `yaml:"scale"`
}

// Shape is a model by its folder, or a random one by its dimensions. With both, the
// folder's model must have those dimensions.
type Shape struct {
	Dir     string `yaml:"dir"`  // in Hugging Face's layout, tokenizer and chat template included
	Base    string `yaml:"base"` // the published model's name, for people
	Layers  int    `yaml:"layers"`
	Width   int    `yaml:"width"`
	Hidden  int    `yaml:"hidden"`
	Heads   int    `yaml:"heads"`
	KVHeads int    `yaml:"kv_heads"`
	Head    int    `yaml:"head"`
	Context int    `yaml:"context"`
	// Of models that come from a folder; a random one of the tiny format has as many
	// words as its tasks, a tied head and a theta of 10,000.
	Vocabulary int     `yaml:"vocabulary,omitempty"`
	Untied     bool    `yaml:"untied,omitempty"`
	Theta      float64 `yaml:"rope_theta,omitempty"`
	// Template names the chat template (gpu/chat) of a folder whose own is not known.
	Template string `yaml:"chat_template,omitempty"`
}

// Data says which tasks are trained on, and which are held out.
type Data struct {
	Source      string `yaml:"source"` // environment: its generated tasks; cm2: a file of the user's
	Train       int    `yaml:"train"`
	TrainSeed   uint64 `yaml:"train_seed"`
	Heldout     int    `yaml:"heldout"` // of a file the first so many rows, as published
	HeldoutSeed uint64 `yaml:"heldout_seed"`
	// File holds the conversations of cm2, Digest is the SHA-256 of what it holds: a
	// run does not go on with other data.
	File   string `yaml:"file,omitempty"`
	Digest string `yaml:"digest,omitempty"`
}

// Rollout is how trajectories are sampled.
type Rollout struct {
	Prompts        int                `yaml:"prompts"`  // a step
	Rollouts       int                `yaml:"rollouts"` // of each prompt
	Temperature    float64            `yaml:"temperature"`
	Turns          int                `yaml:"turns"`
	ParallelCalls  int                `yaml:"parallel_calls"`
	PromptTokens   int                `yaml:"prompt_tokens"`
	ResponseTokens int                `yaml:"response_tokens"`
	Errors         envace.ErrorPolicy `yaml:"errors"`
	// DynamicSampling draws new prompts for those whose rollouts teach nothing, at
	// most so many times a step.
	DynamicSampling int  `yaml:"dynamic_sampling"`
	MaskOverlong    bool `yaml:"mask_overlong"` // a truncated output carries no loss
	// ThinkingSeen and FutureExamples bring back two behaviours of the published
	// code: REHEARSE reads ACT's thinking, and the sample's own later answers.
	ThinkingSeen   bool `yaml:"thinking_seen"`
	FutureExamples bool `yaml:"future_examples"`
	// Examples is how many recorded calls of the same tool, made in other training
	// conversations, REHEARSE is shown; 0 = none. Without FutureExamples never its own.
	Examples int `yaml:"examples,omitempty"`
}

// Reward is how trajectories are graded.
type Reward struct {
	Grader string `yaml:"grader"` // checklist: by the transcript; state: by the sandbox's checks; judge: a model
	Judge  string `yaml:"judge"`  // the judge's name
	Raw    bool   `yaml:"raw"`    // EnvScaler's pass rate, with what holds at the start

	JudgeTemperature float64 `yaml:"judge_temperature,omitempty"`
	// MaxUnknown is the share of rollouts without a grade over which the training
	// stops; 0 = a quarter.
	MaxUnknown float64 `yaml:"max_unknown,omitempty"`
	// CheckEvery is every how many steps the grader itself is measured, 0 = never: by
	// asking Repeats times about CheckRollouts rollouts, and by the terminal checks.
	CheckEvery    int `yaml:"check_every,omitempty"`
	CheckRollouts int `yaml:"check_rollouts,omitempty"`
	Repeats       int `yaml:"repeats,omitempty"`
}

// Baseline is what a reward is compared with.
type Baseline struct {
	Weighting   grpo.Weighting `yaml:"weighting"`
	DivideByStd bool           `yaml:"divide_by_std"`
}

// Loss is the objective.
type Loss struct {
	ClipLow   float64        `yaml:"clip_low"`
	ClipHigh  float64        `yaml:"clip_high"`
	DualClip  float64        `yaml:"dual_clip"`
	Ratio     grpo.Ratio     `yaml:"ratio"`
	KL        float64        `yaml:"kl"`
	Estimator grpo.Estimator `yaml:"kl_estimator"`
	Entropy   float64        `yaml:"entropy"`
	Truncate  float64        `yaml:"importance_cap"`
	Updates   int            `yaml:"updates"` // of the parameters by one batch
}

// Calibration pays fidelity in the arm envace+calibration.
type Calibration struct {
	Lambda       float64 `yaml:"lambda"`
	FalseSuccess float64 `yaml:"false_success"` // what an audited false success pays
}

// Optimizer is AdamW.
type Optimizer struct {
	LearningRate float64 `yaml:"learning_rate"`
	MinRate      float64 `yaml:"min_rate"`
	Warmup       int     `yaml:"warmup"`
	Cosine       bool    `yaml:"cosine"`
	Beta1        float64 `yaml:"beta1"`
	Beta2        float64 `yaml:"beta2"`
	Decay        float64 `yaml:"decay"`
	Clip         float64 `yaml:"clip"`
	// Moments is the type that they are kept in: float32, or bfloat16 rounded by chance, which takes half
	// the memory and needs a card.
	Moments string `yaml:"moments,omitempty"` // empty = float32
}

// WarmStart distils the sandbox's answers into a random model before any arm.
type WarmStart struct {
	Steps        int     `yaml:"steps"` // at most; 0 = none
	Batch        int     `yaml:"batch"` // demonstrations a step
	LearningRate float64 `yaml:"learning_rate"`
	Until        float64 `yaml:"until"`   // executed success at which it ends
	Every        int     `yaml:"every"`   // steps between looks
	Tasks        int     `yaml:"tasks"`   // of a look
	Explore      float64 `yaml:"explore"` // share of demonstrations with a call at random, for REHEARSE to answer
	// Memories is the share of demonstrations that begin with a rehearsal memory, for
	// ACT to read; a policy without them has never seen one.
	Memories float64 `yaml:"memories,omitempty"`
	// Loss is the loss under which it ends, too; 0 = none.
	Loss float64 `yaml:"until_loss,omitempty"`
}

// Checkpoint says when a run is saved, and which checkpoint counts in the end:
// written down before the run.
type Checkpoint struct {
	Every int    `yaml:"every"`
	Rule  string `yaml:"rule"` // last
}

// Evaluation says when and on what a run is evaluated.
type Evaluation struct {
	Every    int `yaml:"every"`
	Tasks    int `yaml:"tasks"`
	Samples  int `yaml:"samples"` // of each task: Avg@samples
	Canaries int `yaml:"canaries"`
}

// Names lists the recipes that came with the program.
func Names() []string {
	files, _ := fs.Glob(recipes, "recipes/*.yaml") // a constant pattern
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".yaml")
	}
	return files
}

// ReadRecipe reads a recipe by its name or from a file. Unknown keys and senseless
// values are an *audit.Error that lists them all.
func ReadRecipe(name string) (Recipe, error) {
	text, err := recipes.ReadFile("recipes/" + name + ".yaml")
	if err != nil {
		if text, err = readSome(name); err != nil {
			return Recipe{}, &audit.Error{
				Code: audit.CodeNotFound, Message: fmt.Sprintf("there is no recipe %q", name), Err: err,
				Hint: "give a file, or one of " + strings.Join(Names(), ", "),
			}
		}
	}
	var r Recipe
	if err = diff.CheckYAML(text); err == nil {
		err = yaml.UnmarshalWithOptions(text, &r, yaml.Strict())
	}
	if err != nil {
		return r, &audit.Error{Code: audit.CodeInvalid, Message: "read recipe " + name, Err: err, Hint: "a recipe's keys are those of recipes/tiny.yaml"}
	}
	if err := r.Validate(); err != nil {
		return r, &audit.Error{Code: audit.CodeInvalid, Message: "recipe " + name, Err: err, Hint: "correct the values"}
	}
	return r, nil
}

// mostRecipe is more bytes than any recipe has.
const mostRecipe = 1 << 20

func readSome(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostRecipe+1))
	if err == nil && len(text) > mostRecipe {
		err = fmt.Errorf("%s has more than %d bytes, which no recipe has", path, mostRecipe)
	}
	return text, err
}

// Digest identifies the recipe: two runs are compared only when it is the same. Where
// the rules of answers lie is no part of it: what they say is compared by itself.
func (r Recipe) Digest() (audit.Digest, error) {
	r.Rules, r.PathPolicy = "", ""
	text, err := yaml.Marshal(r)
	if err != nil {
		return audit.Digest{}, fmt.Errorf("encode recipe %s: %w", r.Name, err)
	}
	return sha256.Sum256(text), nil
}

// loss is the objective as the arithmetic knows it.
func (r Recipe) loss() grpo.Loss {
	l := r.Loss
	return grpo.Loss{
		ClipLow: l.ClipLow, ClipHigh: l.ClipHigh, DualClip: l.DualClip, Ratio: l.Ratio,
		KL: l.KL, Estimator: l.Estimator, Entropy: l.Entropy, Truncate: l.Truncate,
	}
}

func (r Recipe) adamW(rate float64) gpu.AdamWConfig {
	o := r.Optimizer
	c := gpu.DefaultAdamW(rate)
	c.MinLR, c.Warmup, c.Beta1, c.Beta2, c.Decay, c.Clip = o.MinRate, o.Warmup, o.Beta1, o.Beta2, o.Decay, o.Clip
	c.Moments = r.moments()
	if o.Cosine {
		c.Total = r.Steps
	}
	return c
}

func (r Recipe) limits() envace.Limits {
	return envace.Limits{Turns: r.Rollout.Turns, UserTurns: r.Rollout.Turns, ParallelCalls: r.Rollout.ParallelCalls, Response: r.Rollout.ResponseTokens}
}
