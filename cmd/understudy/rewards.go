package main

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/queue"
	"understudy/envace"
)

// rewards is the calibration hook of this process, asked over HTTP and NATS.
type rewards struct {
	hook   *audit.Hook
	scorer audit.Scorer // the hook, with a line a batch
	envs   *environments
	stop   context.CancelFunc
	done   sync.WaitGroup
	err    error // of the responder, after done
}

// startRewards opens the hook and answers NATS requests until close.
func startRewards(ctx context.Context, r *resources, cfg Config, l *ledger.Ledger, log *slog.Logger, trace audit.TraceFunc) (*rewards, error) {
	written, err := loadRules(cfg)
	if err != nil {
		return nil, err
	}
	s := &rewards{envs: newEnvironments(cfg)}
	config := audit.HookConfig{
		Audit: audit.Config{Opener: s.envs, Rules: s.envs.follow(l, written)}, Store: l, Canaries: l.CanaryEpisodes,
		Parse:  func(text string) audit.Rehearsal { r, _ := envace.ParseRehearsal(text); return r },
		Secret: []byte(cfg.SamplingSecret), Budget: cfg.RewardBudget, HeldOut: heldOut(cfg.RewardHoldOut),
	}
	if cfg.RewardRate < 1 {
		config.Inclusion = audit.Stratified(cfg.RewardRate)
	}
	if s.hook, err = audit.NewHook(config); err != nil {
		return nil, errors.Join(err, s.envs.Close())
	}
	s.scorer = loggedScorer{s.hook, log}
	responder, err := queue.NewResponder(r.nats, s.scorer, queue.Config{Logger: log, Trace: trace})
	if err != nil {
		return nil, errors.Join(err, s.hook.Close(), s.envs.Close())
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.done.Go(func() { s.err = responder.Run(ctx) })
	return s, nil
}

func (s *rewards) close() error {
	s.stop()
	s.done.Wait()
	return errors.Join(s.err, s.hook.Close(), s.envs.Close())
}

// heldOut reads the tools whose rewards are withheld: patterns of TOOL or
// ENVIRONMENT:TOOL, with * for any text.
func heldOut(patterns string) func(environment, tool string) bool {
	all := strings.FieldsFunc(patterns, func(r rune) bool { return r == ',' || r == ' ' })
	if len(all) == 0 {
		return nil
	}
	return func(environment, tool string) bool {
		return slices.ContainsFunc(all, func(p string) bool {
			name := tool
			if strings.Contains(p, ":") {
				name = environment + ":" + tool
			}
			// A * of path.Match stops at slashes, which names of tools may have.
			match, err := path.Match(strings.ReplaceAll(p, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
			return err == nil && match
		})
	}
}
