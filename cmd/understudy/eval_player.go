package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"understudy/envace"
	"understudy/envace/eval"
	"understudy/envace/private"
	"understudy/envace/remote"
)

// openPlayer opens the policy that the flags name.
func (e *evaluation) openPlayer(ctx context.Context) error {
	f := &e.flags
	switch {
	case f.run != "":
		return e.openRun(ctx)
	case f.policy.url != "":
		return e.openServer(remote.Config{
			URL: f.policy.url, Model: f.policy.model, APIKey: string(e.inv.config.PolicyKey), Temperature: f.policy.temperature, MaxTokens: f.maxTokens,
			HTTP: e.inv.config.typedClient(f.policy.url),
		}, cmp.Or(f.policy.model, f.policy.url))
	}
	served, config, err := f.policy.serve(ctx, e.inv)
	if err != nil {
		return err
	}
	e.opened = append(e.opened, served.close)
	config.MaxTokens = cmp.Or(f.maxTokens, config.MaxTokens)
	mark, err := fingerprint(f.policy.model)
	if err != nil {
		return err
	}
	return e.openServer(config, config.Model+" "+mark)
}

// openServer asks an OpenAI-compatible server in both roles. The same server
// assesses private attempts.
func (e *evaluation) openServer(config remote.Config, name string) error {
	p, err := remote.NewPlayer(config)
	if err != nil {
		return err
	}
	ask, err := asker(config)
	if err != nil {
		return err
	}
	f := e.flags
	e.player = player{
		name: cmp.Or(f.name, name), temperature: config.Temperature,
		rollout: envace.Rollout{Policy: p, ReadAct: p.ReadAct},
		rehearse: func(t eval.Task, rollout envace.Rollout) private.Rehearser {
			return private.Rehearser{
				Rollout: rollout, World: envace.Rehearsing{Policy: p, Read: p.ReadRehearsal},
				Assess: private.ByModel(ask, 0), Attempts: f.rehearse, Mode: private.Mode(f.mode),
				Memory: private.Memory{Most: f.memory, Count: roughly, Rules: t.Rules},
			}
		},
	}
	return nil
}

// roughly counts tokens where the tokenizer is a server's: three bytes each, which is
// more than most texts need.
func roughly(text string) int { return (len(text) + 2) / 3 }

// asker asks the model of a server outside any role.
func asker(config remote.Config) (func(context.Context, []envace.Message, json.RawMessage, float64) (string, error), error) {
	completer, err := remote.NewCompleter(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, messages []envace.Message, schema json.RawMessage, temperature float64) (string, error) {
		text, _, err := completer.Complete(ctx, messages, schema, temperature)
		return text, err
	}, nil
}

// another is a model beside the policy: the user's or the judge's; nil where none is named.
func (e *evaluation) another(f policyFlags) (eval.AskFunc, error) {
	if f.url == "" {
		return nil, nil //nolint:nilnil // none is named
	}
	ask, err := asker(remote.Config{URL: f.url, Model: f.model, APIKey: string(e.inv.config.PolicyKey), HTTP: e.inv.config.typedClient(f.url)})
	return ask, err
}

// openRun opens the policy of a training run of the tiny format.
func (e *evaluation) openRun(ctx context.Context) error {
	f := e.flags
	s := &stage{inv: e.inv, envs: e.envs, flags: rehearseFlags{
		recipe: f.recipe, arm: f.arm, out: f.run, seed: f.seed, attempts: f.rehearse, mode: f.mode, memory: cmp.Or(f.memory, 48), deviceFlags: f.policy.engine.deviceFlags,
	}}
	e.opened = append(e.opened, s.closePlayer)
	if err := s.open(ctx); err != nil {
		return err
	}
	e.stage, e.rules = s, s.rules // its recipe may name some
	alone := s.rehearser(s.player.Policy, private.Mode(f.mode), f.rehearse)
	e.player = player{
		name:        cmp.Or(f.name, fmt.Sprintf("%s/%s/%d, step %d", s.recipe.Name, f.arm, f.seed, s.player.Step)),
		temperature: s.recipe.Rollout.Temperature,
		rollout:     envace.Rollout{Policy: s.player.Policy, ReadAct: s.format.ReadAct, Limits: alone.Rollout.Limits, Errors: alone.Rollout.Errors},
		rehearse: func(_ eval.Task, rollout envace.Rollout) private.Rehearser {
			own := alone // samples play side by side
			own.Rollout = rollout
			return own
		},
	}
	return nil
}

// fingerprint tells the weights of two folders apart without reading them whole: the
// size, the first and the last MiB of each file.
func fingerprint(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		return "", fmt.Errorf("look for weights: %w", err)
	}
	h := sha256.New()
	for _, name := range files {
		if err := sample(h, name); err != nil {
			return "", modelError(dir, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

func sample(w io.Writer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	const part = 1 << 20
	fmt.Fprintln(w, filepath.Base(name), strconv.FormatInt(info.Size(), 10))
	for _, at := range []int64{0, max(0, info.Size()-part)} {
		if _, err := io.Copy(w, io.NewSectionReader(file, at, part)); err != nil {
			return err
		}
	}
	return nil
}
