package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/cm2"
	"understudy/envace/judge"
	"understudy/envace/remote"
	"understudy/envace/train"
)

// chatFlags are the flags of train that the chat format needs.
type chatFlags struct {
	modelDir, data    string
	judge, judgeModel string
	kv                mebibytes
	skipBad, dryRun   bool
}

func (f *chatFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.modelDir, "model-dir", "", "folder of the model to train, in Hugging Face's layout (chat format)")
	fs.StringVar(&f.data, "data", "", "file of conversations with checklists, as CM2 writes them: JSON Lines or a list (recipes with source: cm2)")
	fs.BoolVar(&f.skipBad, "skip-bad-rows", false, "leave out the rows of --data that cannot be used, and name them")
	fs.StringVar(&f.judge, "judge", "", "base URL of the OpenAI-compatible server whose model grades by the checklists")
	fs.StringVar(&f.judgeModel, "judge-model", "", "model of --judge's server; needed when it serves several")
	fs.Var(&f.kv, "kv-memory", "MiB for the keys and values of rollouts; 0 = what 64 rollouts need, at most 1024")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what the recipe needs, and run two real steps of it in a small random model")
}

// ask asks the judge's server.
func (f chatFlags) ask(cfg Config) (judge.AskFunc, error) {
	completer, err := remote.NewCompleter(remote.Config{URL: f.judge, Model: f.judgeModel, APIKey: string(cfg.JudgeKey), MaxTokens: judge.MaxTokens, HTTP: cfg.typedClient(f.judge)})
	if err != nil {
		return nil, err
	}
	return judge.Asking(completer), nil
}

// samples reads the conversations, and puts their digest into the recipe.
func (t *training) samples() ([]cm2.Sample, error) {
	f := t.flags.chat
	name := f.data
	if name == "" {
		name = t.recipe.Data.File
	}
	if name == "" {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "recipe " + t.recipe.Name + " trains on conversations of yours",
			Hint: "give the file: --data conversations.jsonl; --dry-run does without",
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: "read the conversations", Err: err, Hint: "give a file that can be read with --data"}
	}
	digest := audit.Digest(sha256.Sum256(text)).String()
	if wanted := t.recipe.Data.Digest; wanted != "" && wanted != digest {
		return nil, &audit.Error{Code: audit.CodeConflict, Message: fmt.Sprintf("%s has the digest %s, the recipe is for %s", name, digest, wanted), Hint: "give the recipe's own data, or another recipe"}
	}
	t.recipe.Data.Digest = digest
	return usable(t.inv, name, text, f.skipBad)
}

// usable are the rows without a fault. With faults it is an error, unless they are to
// be left out; then they are named.
func usable(inv *invocation, name string, text []byte, skip bool) ([]cm2.Sample, error) {
	samples, faults, err := cm2.Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if skip {
		for _, fault := range faults {
			fmt.Fprintf(inv.stderr, "left out: %s\n", fault)
		}
		return samples, nil
	}
	return samples, cm2.Refusal(name, faults)
}

// converse takes tasks, format, grader and recordings of the conversations.
func (t *training) converse(c *train.Config) error {
	if t.flags.chat.judge == "" {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: "recipe " + t.recipe.Name + " is graded by a judge, " + t.recipe.Reward.Judge,
			Hint: "give the base URL of the server that has it: --judge http://127.0.0.1:8001/v1; --dry-run does without",
		}
	}
	ask, err := t.flags.chat.ask(t.inv.config)
	if err != nil {
		return err
	}
	samples, err := t.samples()
	if err != nil {
		return err
	}
	if err := t.checkModel(); err != nil {
		return err
	}
	format, err := t.recipe.ChatFormat()
	if err != nil {
		return err
	}
	all, err := t.recipe.Split(samples, format)
	if err != nil {
		return err
	}
	if n := len(all.TooLong); n > 0 {
		fmt.Fprintf(t.inv.stderr, "%d conversations are left out, whose first prompt leaves no room for what follows; the first is %s\n", n, all.TooLong[0])
	}
	c.Recipe = t.recipe
	c.Take(all, format)
	c.Grader = t.recipe.Grading(ask, all)
	t.sources[train.ArmRecorded] = envace.Recorded{Turns: all.Turns}
	return nil
}

// speak takes the format of the model's folder for the tasks of an environment.
func (t *training) speak(c *train.Config) error {
	if err := t.checkModel(); err != nil {
		return err
	}
	format, err := t.recipe.ChatFormat()
	c.Format = format
	return err
}

// checkModel says what is wrong with the model's folder before anything is loaded.
func (t *training) checkModel() error {
	if t.recipe.Model.Dir == "" {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("recipe %s trains %s, and no folder holds it", t.recipe.Name, t.recipe.Model.Base),
			Hint: "give the folder with config.json, tokenizer.json and *.safetensors: --model-dir DIR; --dry-run does without",
		}
	}
	_, err := t.recipe.Model.Real()
	return err
}
