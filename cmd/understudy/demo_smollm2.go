package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"understudy/audit"
)

// smolLM2Folder is where make model-smollm2 puts the model.
func smolLM2Folder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", &audit.Error{Code: audit.CodeNotFound, Message: "there is no cache folder", Hint: "set HOME", Err: err}
	}
	dir := filepath.Join(cache, "understudy", "models", "smollm2-135m-instruct")
	if _, err := os.Stat(dir); err != nil {
		return "", &audit.Error{Code: audit.CodeNotFound, Message: "SmolLM2 is not here", Hint: "make model-smollm2", Err: err}
	}
	return dir, nil
}

// smolLM2 audits what a real language model, small and badly calibrated, imagines of
// the retail domain. It writes every answer on this machine's processors.
func (d demoFlags) smolLM2(ctx context.Context, inv *invocation, m *Main, s *story) (err error) {
	dir, err := smolLM2Folder()
	if err != nil {
		return err
	}
	s.say("loading SmolLM2-135M-Instruct from %s", dir)
	flags := policyFlags{model: dir, k: 1, engine: engineFlags{batch: smolLM2Batch, kv: 1024}}
	policy, err := flags.open(ctx, inv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, policy.close()) }()
	p, err := newPipeline(m.resources, inv.config, inv.log, pipelineConfig{
		rehearser: policy.rehearser, patience: policy.patience, inFlight: smolLM2Batch, metrics: m.metrics, batches: slog.LevelDebug,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	env, err := p.envs.Environment(ctx, d.environment)
	if err != nil {
		return err
	}
	episodes, err := liveFlags{tasks: smolLM2Tasks, canaries: smolLM2Canaries}.episodes(ctx, env, importFlags{
		environment: d.environment, policyName: "smollm2-135m-instruct", mode: string(audit.Forced),
	})
	if err != nil {
		return err
	}
	s.say("it rehearses the solutions of %d tasks of %s and %d canaries: minutes", smolLM2Tasks, d.environment, smolLM2Canaries)
	return s.auditRun(ctx, inv, p, audit.NewRun{
		Name: runName("smollm2", time.Now()), Policy: "smollm2-135m-instruct", Settings: inv.config.Effective(), Tags: []string{"demo"},
	}, episodes)
}

// How much SmolLM2 is asked: some minutes on two cores.
const (
	smolLM2Tasks    = 20
	smolLM2Canaries = 40
	smolLM2Batch    = 16 // rehearsals at once: they read the weights together
)
