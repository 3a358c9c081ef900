package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"understudy/audit"
)

// laterVersions lists the environment's versions after the base one: name@2,
// name@3, ... for name@1.
func laterVersions(ctx context.Context, envs *environments, base string) ([]string, error) {
	name, label, _ := strings.Cut(base, "@")
	label, compat, _ := strings.Cut(label, "+")
	version := 1
	if label != "" {
		n, err := strconv.Atoi(label)
		if err != nil {
			return nil, usageError("environment "+base, "write name@1")
		}
		version = n
	}
	if compat != "" {
		return nil, usageError("environment "+base+" has one version", "audit across the versions of a native domain, such as "+name+"@1")
	}
	var later []string
	for {
		version++
		ref := name + "@" + strconv.Itoa(version)
		_, err := envs.Environment(ctx, ref)
		switch {
		case err == nil:
			later = append(later, ref)
		case audit.ErrorCode(err) == audit.CodeNotFound && len(later) > 0:
			return later, nil
		default:
			return nil, fmt.Errorf("a later version of %s: %w", base, err)
		}
	}
}

// acrossVersions audits one policy on a domain's versions, each as a run of its
// own, and says whether it notices that the world changed (design.md 10).
func (a auditFlags) acrossVersions(ctx context.Context, inv *invocation, p *pipeline) error {
	if a.environment == "" || a.policy.url == "" {
		return usageError("--across-versions needs an environment and a policy that rehearses", "understudy audit --across-versions --environment retail@1 --policy URL")
	}
	base := a.environment
	others, err := laterVersions(ctx, p.envs, base)
	if err != nil {
		return err
	}
	env, err := p.envs.Environment(ctx, base)
	if err != nil {
		return err
	}
	episodes, err := a.live.withDefaults().episodes(ctx, env, a.importFlags)
	if err != nil {
		return err
	}
	in := intake{ledger: p.ledger, envs: p.envs, flags: a.importFlags}
	runs := map[string]string{}
	in.flags.run = cmp.Or(in.flags.run, runName(cmp.Or(in.flags.policyName, "across"), time.Now()))
	for _, ref := range append([]string{base}, others...) {
		if runs[ref], err = in.versionRun(ctx, inv, ref); err != nil {
			return err
		}
	}
	progress := inv.newProgress("audit across versions", len(episodes)*len(runs))
	defer progress.end()
	figures, err := p.auditor.AcrossVersions(ctx, base, others, episodes, func(ref string, pairs []audit.Pair) error {
		progress.add(1)
		_, err := p.ledger.Commit(ctx, runs[ref], pairs)
		return err
	})
	if err != nil {
		return err
	}
	for _, run := range runs {
		if err := p.ledger.CompleteRun(ctx, run); err != nil {
			return err
		}
	}
	for _, f := range figures {
		if err := p.ledger.SaveVersionFigures(ctx, runs[f.Environment], base, f); err != nil {
			return err
		}
	}
	return printVersions(inv, base, figures, runs)
}

// versionRun makes the run that keeps one version's pairs.
func (in intake) versionRun(ctx context.Context, inv *invocation, ref string) (string, error) {
	in.flags.run += "/" + ref
	return in.flags.run, in.ensureRun(ctx, inv, in.flags.run)
}

func printVersions(inv *invocation, base string, figures []audit.VersionFigures, runs map[string]string) error {
	fmt.Fprintf(inv.stdout, "one policy across versions; it is taken to know %s\n\n", base)
	table := columns{left: 1}
	table.add("version", "calls", "changed", "stale [95 %]", "until noticed", "no task", "run")
	slices.SortFunc(figures, func(a, b audit.VersionFigures) int { return strings.Compare(a.Environment, b.Environment) })
	for _, f := range figures {
		until := "-"
		if f.Calls.Defined() {
			until = fmt.Sprintf("%.1f", f.Calls.Value)
		}
		table.add(f.Environment, strconv.Itoa(f.Scored), count(f.Changed), bounded(f.Stale), until, count(f.Missing), runs[f.Environment])
	}
	if err := table.print(inv.stdout); err != nil {
		return err
	}
	_, err := fmt.Fprint(inv.stdout, `
changed = calls that the version answers in another way than `+base+` does. stale = of these, in %, the answer that was
right before the change; Wilson on n/deff by prompt group. until noticed = changed calls of one rollout, up to 10. no
task = episodes left out because the version lacks their task. On what is known: understudy report `+runs[base]+`
`)
	return err
}
