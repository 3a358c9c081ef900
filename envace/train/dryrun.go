package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/chat"
	"understudy/envace/cm2"
	"understudy/envace/judge"
	"understudy/gpu"
	chatml "understudy/gpu/chat"
	"understudy/gpu/tokenizer"
)

// Dry is a dry run of a recipe on recorded conversations: a few real steps of a random
// model of the same family, so narrow that they take seconds.
type Dry struct {
	Recipe  Recipe
	Arm     Arm
	Seed    uint64
	Samples []cm2.Sample
	Judge   judge.AskFunc
	Source  envace.Source // of grpo-simulator
	Rules   *audit.Rules  // by which answers are read; nil = the defaults
	Runtime Runtime       // Out is an empty folder
	// Progress gets a line now and then; nil = silent.
	Progress func(line string)
}

// DryReport is what a dry run did.
type DryReport struct {
	Lowered     []Lowered
	Tokens      int // of the vocabulary
	FirstTokens []int
	Steps       [][]audit.Metric
	Evaluated   []Evaluated
	// Before and After digest the parameters around an evaluation: equal, or it fails.
	Before, After audit.Digest
	Wall          time.Duration
}

// Run does it: a tokenizer is loaded or trained, a model of random weights is written
// as a folder, warmed up on the conversations, trained, evaluated and saved, all by
// what a real run uses.
func (d Dry) Run(ctx context.Context) (DryReport, error) {
	var report DryReport
	started := time.Now()
	d.Samples = shortest(d.Samples, dryPrompts+2)
	format, template, err := d.format()
	if err != nil {
		return report, err
	}
	whole, err := d.Recipe.Model.Real()
	if err != nil {
		return report, err
	}
	longest, conversation, err := lengths(d.Samples, format)
	if err != nil {
		return report, err
	}
	dir := filepath.Join(d.Runtime.Out, "model")
	d.Recipe.Model.Template = template
	recipe, lowered := d.Recipe.shrunk(dir, len(d.Samples), longest, conversation)
	shape := small(whole, format.Tokenizer.Size(), format.End(), recipe.Rollout.PromptTokens+max(recipe.Rollout.ResponseTokens, conversation))
	report.Lowered, report.Tokens = append(lowerings(whole, shape), lowered...), format.Tokenizer.Size()
	if err := d.write(dir, shape, format.Tokenizer); err != nil {
		return report, err
	}
	c, err := d.config(recipe, &report)
	if err != nil {
		return report, err
	}
	if err := Run(ctx, c, d.Runtime); err != nil {
		return report, fmt.Errorf("dry run: %w", err)
	}
	report.Evaluated, err = ReadEvaluations(filepath.Join(Folder(d.Runtime.Out, c.Arm, c.Seed), evaluationsFile))
	if err != nil {
		return report, err
	}
	err = d.evaluationChangesNothing(ctx, c, &report)
	report.Wall = time.Since(started)
	return report, err
}

// format is that of the recipe's folder, or a small one that is trained on the
// conversations; template names the chat template that a folder of ours lacks.
func (d Dry) format() (f *chat.Format, template string, err error) {
	if d.Recipe.Model.Dir != "" {
		f, err := d.Recipe.ChatFormat()
		if err != nil {
			return nil, "", err
		}
		return f, string(f.Template.Format()), nil
	}
	t, err := chatml.New(chatml.Qwen3)
	if err != nil {
		return nil, "", err
	}
	words, err := tokenizer.Train(texts(d.Samples), tokenizer.TrainConfig{Pattern: tokenizer.Qwen2, Size: 4000, NFC: true, Added: controls()})
	if err != nil {
		return nil, "", fmt.Errorf("train a small tokenizer: %w", err)
	}
	return &chat.Format{Template: t, Tokenizer: words}, string(chatml.Qwen3), nil
}

// controls are the tokens of Qwen3's template that stay whole.
func controls() []tokenizer.AddedToken {
	var added []tokenizer.AddedToken
	for _, text := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		added = append(added, tokenizer.AddedToken{Content: text, Special: true})
	}
	for _, text := range []string{"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"} {
		added = append(added, tokenizer.AddedToken{Content: text})
	}
	return added
}

// texts are what the prompts of the conversations are made of, each twice, so that
// every word of the instructions becomes a token.
func texts(samples []cm2.Sample) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range samples {
			t := &envace.Transcript{Task: s.Task, Policy: s.Told, Tools: s.Tools, Items: s.Items}
			tools, _ := envace.ToolList(s.Tools)                                                          // what it cannot write is no text to learn from
			story, _ := envace.Narrate(s.Items, true)                                                     // likewise
			messages, _ := envace.RehearsePrompt(audit.RehearseRequest{Tools: s.Tools, History: s.Turns}) // likewise
			all := []string{envace.ActInstruction(t), tools, story, s.Task.Prompt}
			for _, m := range messages {
				all = append(all, m.Content)
			}
			for _, text := range append(all, all...) {
				if !yield(text) {
					return
				}
			}
		}
	}
}

// shortest are the n shortest conversations, in their order.
func shortest(samples []cm2.Sample, n int) []cm2.Sample {
	size := func(s cm2.Sample) int {
		story, _ := envace.Narrate(s.Items, true) // what cannot be told counts as short, and fails where it is used
		tools, _ := envace.ToolList(s.Tools)
		return len(story) + len(tools)
	}
	sizes := make([]int, len(samples))
	for i, s := range samples {
		sizes[i] = size(s)
	}
	sorted := slices.Sorted(slices.Values(sizes))
	if len(sorted) <= n {
		return samples
	}
	var kept []cm2.Sample
	for i, s := range samples {
		if sizes[i] <= sorted[n-1] && len(kept) < n {
			kept = append(kept, s)
		}
	}
	return kept
}

// lengths are the longest first prompt and the longest whole conversation beside it.
func lengths(samples []cm2.Sample, f *chat.Format) (first, conversation int, err error) {
	for _, s := range samples {
		t := &envace.Transcript{Task: s.Task, Policy: s.Told, Tools: s.Tools}
		n, err := f.First(t)
		if err != nil {
			return 0, 0, err
		}
		t.Items = s.Items
		whole, err := f.First(t)
		if err != nil {
			return 0, 0, err
		}
		first, conversation = max(first, n), max(conversation, whole)
	}
	return first, conversation, nil
}

// write makes the folder of a random model, as Hugging Face lays one out.
func (d Dry) write(dir string, shape gpu.Config, words *tokenizer.Tokenizer) error {
	device, err := d.Runtime.Device(gpu.Exact)
	if err != nil {
		return fmt.Errorf("open a device: %w", err)
	}
	defer done(device)
	model, err := gpu.NewRandom(device, shape, d.Seed)
	if err != nil {
		return err
	}
	return errors.Join(model.Save(dir, gpu.F32), words.Save(filepath.Join(dir, tokenizer.FileName)), model.Close())
}

// config is the training of the shrunken recipe.
func (d Dry) config(recipe Recipe, report *DryReport) (Config, error) {
	c := Config{Recipe: recipe, Arm: d.Arm, Seed: d.Seed, Source: d.Source, Rules: d.Rules, Progress: d.Progress, Sinks: []Sink{stepSink{report}}}
	format, err := recipe.ChatFormat()
	if err != nil {
		return c, err
	}
	all, err := recipe.Split(d.Samples, format)
	if err != nil {
		return c, err
	}
	c.Take(all, format)
	report.FirstTokens = all.First
	if c.Arm == ArmRecorded {
		c.Source = envace.Recorded{Turns: all.Turns}
	}
	c.Grader = recipe.Grading(d.Judge, all)
	if c.Rules == nil {
		c.Rules, err = audit.NewRules(audit.RulesSpec{}, nil, nil)
	}
	return c, err
}

// stepSink keeps the metrics of training steps; those of evaluations are in their file.
type stepSink struct{ report *DryReport }

// Write implements Sink.
func (s stepSink) Write(metrics []audit.Metric) error {
	s.report.Steps = append(s.report.Steps, metrics)
	return nil
}

// Close implements Sink.
func (stepSink) Close() error { return nil }
