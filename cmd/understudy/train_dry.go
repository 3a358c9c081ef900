package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/cm2"
	"understudy/envace/judge"
	"understudy/envace/remote"
	"understudy/envace/train"
	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/safetensors"
)

// dryRun prints what the recipe needs and runs two steps of it, small. It needs no
// server: without --judge a script answers for it, without --data the conversations
// that come with the program are taken.
func dryRun(ctx context.Context, inv *invocation, f trainFlags, recipe train.Recipe) (err error) {
	if recipe.Data.Source != "cm2" {
		return usageError("--dry-run is for recipes on conversations, and "+recipe.Name+" trains in "+recipe.Environment, "run two steps of it: --steps 2 --out DIR")
	}
	arm, err := train.ParseArm(f.arm)
	if err != nil {
		return err
	}
	t := &training{flags: f, recipe: recipe, inv: inv}
	samples, name, err := t.drySamples()
	if err != nil {
		return err
	}
	shape, err := recipe.Model.Real()
	if err != nil {
		return err
	}
	fmt.Fprintf(inv.stdout, "recipe %s, arm %s: every value is valid\nmodel  %s: %d layers of %d, vocabulary %d, %.2f billion parameters\n",
		recipe.Name, arm, recipe.Model.Base, shape.Layers, shape.Width, shape.Vocab, float64(shape.Parameters())/1e9)
	t.printData(name, len(samples))
	if err := t.printNeeds(shape, arm); err != nil {
		return err
	}
	out, err := os.MkdirTemp("", "understudy-dry-")
	if err != nil {
		return fmt.Errorf("make a folder for the dry run: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	d := train.Dry{Recipe: recipe, Arm: arm, Seed: f.seed, Samples: samples, Progress: func(line string) { fmt.Fprintln(inv.stdout, line) }}
	if d.Rules, err = loadRules(inv.config.readBy(recipe)); err != nil {
		return err
	}
	if d.Judge, err = t.dryJudge(); err != nil {
		return err
	}
	if f.policy.url != "" {
		simulator, err := f.policy.remote(inv.config)
		if err != nil {
			return err
		}
		d.Source = envace.Simulated{Rehearser: simulator}
	}
	engine := devices{deviceFlags: f.deviceFlags}
	defer engine.close()
	d.Runtime = train.Runtime{Out: out, Device: engine.next}
	fmt.Fprintln(inv.stdout, "\nrunning, small:")
	report, err := d.Run(ctx)
	if err != nil {
		return err
	}
	return printDry(inv.stdout, report)
}

// drySamples are the conversations of --data, or those that come with the program.
func (t *training) drySamples() ([]cm2.Sample, string, error) {
	if t.flags.chat.data != "" || t.recipe.Data.File != "" {
		samples, err := t.samples()
		return samples, t.flags.chat.data, err
	}
	text, err := io.ReadAll(cm2.BuiltIn())
	if err != nil {
		return nil, "", err
	}
	samples, err := usable(t.inv, "the built-in conversations", text, false)
	return samples, "the built-in conversations", err
}

// dryJudge is the judge of --judge, or a script behind the same HTTP client.
func (t *training) dryJudge() (judge.AskFunc, error) {
	if t.flags.chat.judge != "" {
		return t.flags.chat.ask(t.inv.config)
	}
	fmt.Fprintln(t.inv.stdout, "judge  a script that passes half of what it is asked: rewards mean nothing (--judge URL asks a model)")
	completer, err := remote.NewCompleter(remote.Config{URL: "http://scripted-judge", HTTP: &http.Client{Transport: inProcess{judge.Scripted(judge.ByHash)}}})
	if err != nil {
		return nil, err
	}
	return judge.Asking(completer), nil
}

func (t *training) printData(name string, rows int) {
	r, out := t.recipe, t.inv.stdout
	trained := min(r.Data.Train, max(rows-r.Data.Heldout, 0))
	fmt.Fprintf(out, "data   %s: %d rows; the recipe holds out %d and trains on %d", name, rows, r.Data.Heldout, r.Data.Train)
	draws := r.Steps * r.Rollout.Prompts
	if trained > 0 {
		fmt.Fprintf(out, "; here %d, drawn %.1f times each\n", trained, float64(draws)/float64(trained))
	} else {
		fmt.Fprint(out, "; too few for both, but enough for a dry run\n")
	}
	longest := r.Rollout.PromptTokens + r.Rollout.ResponseTokens
	fmt.Fprintf(out, "steps  %d of %d prompts × %d rollouts = %d rollouts, each at most %d outputs of ACT with %d calls; rows of at most %d tokens, %d a micro-batch\n",
		r.Steps, r.Rollout.Prompts, r.Rollout.Rollouts, r.Steps*r.Rollout.Prompts*r.Rollout.Rollouts, r.Rollout.Turns, r.Rollout.ParallelCalls, longest, r.MicroTokens)
}

func (t *training) printNeeds(c gpu.Config, arm train.Arm) error {
	card, err := t.flags.card()
	if err != nil {
		return err
	}
	if card != nil {
		return t.printCardNeeds(*card, c, arm)
	}
	out, needs := t.inv.stdout, t.recipe.Needs(c, arm)
	fmt.Fprintln(out, "\nmemory of a real run on this engine, at the least:")
	table := columns{left: 1}
	table.add("what", "GiB")
	for _, n := range needs {
		table.add(n.What, gibibytes(n.Bytes))
	}
	total := train.Total(needs)
	have, text := t.flags.memory()
	table.add("in all", gibibytes(total))
	if err := table.print(out); err != nil {
		return err
	}
	if have == 0 {
		fmt.Fprintln(out, text)
		return nil
	}
	if total <= have {
		fmt.Fprintf(out, "%s: it fits\n", text)
		return nil
	}
	fmt.Fprintf(out, "%s: it does not fit. Lowered would be:\n", text)
	best := int64(0)
	for _, x := range t.recipe.Thrifts(c, arm) {
		fmt.Fprintf(out, "  %s saves %s GiB\n", x.Change, gibibytes(x.Saves))
		best += x.Saves
	}
	if total-best > have {
		fmt.Fprintf(out, "  all of it is not enough: take a smaller model (the paper had %s)\n", t.recipe.Scale)
	}
	return nil
}

// printCardNeeds is printNeeds for a card; a model whose weights are not there yet is taken to be stored in bfloat16, as
// published ones are.
func (t *training) printCardNeeds(o cuda.Options, c gpu.Config, arm train.Arm) error {
	run := train.Config{Recipe: t.recipe, Arm: arm, KVMemory: t.flags.chat.kv.bytes()}
	sets, err := run.Plans(o.KVType())
	if t.recipe.Model.Dir == "" || errors.Is(err, safetensors.ErrNotFound) {
		sets, err = run.PlansOf(c, gpu.BF16, o.KVType())
	}
	if err != nil {
		return err
	}
	plan := cardPlan{sets: sets, products: o.Products, mode: t.recipe.EngineMode()}
	parts, err := plan.text()
	if err != nil {
		return err
	}
	fmt.Fprintf(t.inv.stdout, "\nmemory that a real run takes of %s:\n%s", t.flags.device, parts)
	free, text := t.flags.memory()
	if free == 0 {
		fmt.Fprintln(t.inv.stdout, text)
		return nil
	}
	if err := plan.refuse(free, t.flags.device); err != nil {
		fmt.Fprintf(t.inv.stdout, "%s: it does not fit; %s\n", text, audit.ErrorHint(err))
		return nil
	}
	fmt.Fprintf(t.inv.stdout, "%s: it fits\n", text)
	return nil
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<30)) }

// printDry says what was lowered and what came out.
func printDry(w io.Writer, report train.DryReport) error {
	table := columns{left: 2}
	table.add("step", "reward", "outputs of ACT", "of REHEARSE, tokens", "loss", "ratio − 1", "clipped", "without grade")
	for _, metrics := range report.Steps {
		value := func(name string, role audit.PolicyRole) float64 {
			i := slices.IndexFunc(metrics, func(m audit.Metric) bool { return m.Name == name && m.Role == role })
			if i < 0 {
				return 0
			}
			return metrics[i].Value
		}
		if !slices.ContainsFunc(metrics, func(m audit.Metric) bool { return m.Name == "tokens" }) {
			continue // of an evaluation, or of a step that taught nothing
		}
		table.add(strconv.FormatInt(metrics[0].Step, 10), fmt.Sprintf("%.3f", value(audit.MetricReward, audit.WholePolicy)),
			fmt.Sprintf("%.1f tokens", value(audit.MetricLength, audit.ActRole)), fmt.Sprintf("%.1f", value(audit.MetricLength, audit.RehearseRole)),
			fmt.Sprintf("%.4f", value("loss", audit.WholePolicy)), fmt.Sprintf("%.2g", value("ratio_gap", audit.WholePolicy)),
			fmt.Sprintf("%.3f", value("clip_fraction", audit.WholePolicy)), fmt.Sprintf("%.2f", value("unknown", audit.WholePolicy)))
	}
	fmt.Fprintln(w)
	if err := table.print(w); err != nil {
		return err
	}
	var changes []string
	for _, l := range report.Lowered {
		changes = append(changes, fmt.Sprintf("%s %s → %s", l.Key, l.From, l.To))
	}
	_, err := fmt.Fprintf(w, "\nlowered for this: %s\nfirst prompts of %v tokens; weights, moments and draws before and after an evaluation: %s, the same\ndry run done in %s\n",
		strings.Join(changes, "; "), report.FirstTokens, report.Before.String()[:16], report.Wall.Round(time.Second))
	return err
}
