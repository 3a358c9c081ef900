package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"understudy/audit"
	"understudy/audit/atomicfile"
	"understudy/audit/gate"
	"understudy/audit/ledger"
)

func gateCommand() command {
	return command{
		name: "gate", args: "[init | selftest | verify FILE | schema policy|verdict]",
		summary: "decide about a release: exit 0 pass, 1 fail, 2 inconclusive",
		example: "understudy gate --policy gate.yaml --run nightly",
		verbs: []verb{
			{"--policy FILE --run RUN", "decide; the last line is the verdict"},
			{"init --run RUN", "write a policy to start from, of what the run measured"},
			{"selftest [--policy FILE]", "show that the policy can block: it judges rehearsers that are wrong, and one that is right"},
			{"verify FILE", "decide again from the figures that a kept verdict holds, and compare"},
			{"schema policy|verdict", "the JSON Schema of either document, for your editor"},
		},
		setup: func(fs *flag.FlagSet) runFunc {
			var g gateFlags
			fs.StringVar(&g.policy, "policy", "", "gate policy, YAML; `understudy gate init --run RUN` writes one to start from")
			fs.StringVar(&g.run, "run", "", "run to decide about: its name, or tag:NAME")
			fs.StringVar(&g.baseline, "baseline", "", "run to compare with: a name, tag:NAME, auto, or none; by default what the policy says")
			fs.StringVar(&g.inconclusive, "inconclusive", "", "count INCONCLUSIVE as pass or fail")
			fs.IntVar(&g.failExit, "fail-exit-code", 0, "exit status of FAIL instead of 1")
			fs.BoolVar(&g.buy, "buy", false, "queue the calls that are missing for a decision, as far as the environment has tasks and canaries for them")
			fs.StringVar(&g.environment, "environment", "retail@1", "sandbox of a selftest")
			return func(ctx context.Context, inv *invocation) error { return g.do(ctx, inv) }
		},
	}
}

// gateUsage says how the verb is written, or names the one that was meant.
func gateUsage(given string) string {
	switch given {
	case "verify":
		return "understudy gate verify FILE"
	case "schema":
		return "understudy gate schema policy, or understudy gate schema verdict"
	default:
		return suggest(given, []string{"init", "selftest", "verify", "schema"})
	}
}

type gateFlags struct {
	policy, run, baseline, inconclusive, environment string
	failExit                                         int
	buy                                              bool
}

func (g gateFlags) do(ctx context.Context, inv *invocation) error {
	switch {
	case len(inv.args) == 0:
		return g.withLedger(ctx, inv, g.decide)
	case inv.args[0] == "init":
		return g.withLedger(ctx, inv, g.init)
	case inv.args[0] == "selftest":
		return g.selftest(ctx, inv)
	case inv.args[0] == "verify" && len(inv.args) == 2:
		return g.verify(inv)
	case inv.args[0] == "schema" && len(inv.args) == 2:
		return gateSchema(inv)
	}
	return usageError("gate "+strings.Join(inv.args, " "), gateUsage(inv.args[0]))
}

func (g gateFlags) withLedger(ctx context.Context, inv *invocation, work func(context.Context, *invocation, *ledger.Ledger) error) error {
	if g.run == "" {
		return usageError("gate needs a run", "name it: --run NAME (or tag:NAME)")
	}
	return withLedger(ctx, inv, func(l *ledger.Ledger) error { return work(ctx, inv, l) })
}

func (g gateFlags) load() (*gate.Policy, error) {
	if g.policy == "" {
		return nil, usageError("gate needs a policy", "name it: --policy gate.yaml; `understudy gate init --run RUN` writes one to start from")
	}
	text, err := readSmall(g.policy)
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: "gate policy " + g.policy, Hint: "name a readable file", Err: err}
	}
	p, err := gate.Load(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.policy, err)
	}
	return p, nil
}

func (g gateFlags) options() (gate.Options, error) {
	o := gate.Options{Now: time.Now(), FailExit: g.failExit, PolicyFile: g.policy}
	switch g.inconclusive {
	case "":
	case "pass":
		o.InconclusiveAs = gate.Pass
	case "fail":
		o.InconclusiveAs = gate.Fail
	default:
		return o, usageError("--inconclusive "+g.inconclusive, suggest(g.inconclusive, []string{"pass", "fail"}))
	}
	return o, nil
}

// decide judges the run, stores the verdict, writes the reports that the policy
// asks for, and prints the verdict last of all.
func (g gateFlags) decide(ctx context.Context, inv *invocation, l *ledger.Ledger) error {
	p, err := g.load()
	if err != nil {
		return err
	}
	options, err := g.options()
	if err != nil {
		return err
	}
	evidence, err := gate.Collect(ctx, l, p, g.run, g.baseline)
	if err != nil {
		return err
	}
	v := gate.Decide(p, evidence, options)
	if err := saveVerdict(ctx, l, v); err != nil {
		return err
	}
	announceRegression(ctx, inv.config, inv.log, l, v)
	if err := writeReports(inv, p, v); err != nil {
		return err
	}
	printChecks(inv, v)
	if g.buy {
		if err := g.buyMissing(ctx, inv, l, v); err != nil {
			return err
		}
	}
	return concludeGate(inv, v)
}

// saveVerdict keeps a verdict in the ledger, with what recomputes it.
func saveVerdict(ctx context.Context, l *ledger.Ledger, v *gate.Verdict) error {
	document, err := gate.ReportJSON(v)
	if err != nil {
		return err
	}
	return l.SaveGate(ctx, audit.GateRecord{Run: v.Evidence.Run.ID, Status: string(v.Status), PolicyDigest: v.Policy.Digest, Document: document})
}

// concludeGate prints the verdict and turns it into the exit status.
func concludeGate(inv *invocation, v *gate.Verdict) error {
	fmt.Fprintln(inv.stdout, v.Line)
	if v.ExitCode == exitOK {
		return nil
	}
	return &gateError{status: v.ExitCode, text: v.Line}
}

// printChecks lists what did not pass, gravest first, and what is missing.
func printChecks(inv *invocation, v *gate.Verdict) {
	order := []gate.Status{gate.Fail, gate.Error, gate.Inconclusive}
	for _, status := range order {
		for i := range v.Checks {
			if c := &v.Checks[i]; c.Status == status && !c.Informational {
				fmt.Fprintf(inv.stdout, "%-12s  %s\n", c.Status, c.Sentence())
			}
		}
	}
	for _, note := range v.Notes {
		fmt.Fprintln(inv.stdout, "note:", note)
	}
}

func writeReports(inv *invocation, p *gate.Policy, v *gate.Verdict) error {
	for _, kind := range gate.ReportKinds() {
		path, asked := p.Reports[kind]
		if !asked {
			continue
		}
		text, err := gate.Report(kind, v)
		if err != nil {
			return err
		}
		if err := writeReport(inv, path, text); err != nil {
			return &audit.Error{
				Code: audit.CodeInfrastructure, Message: "write the " + string(kind) + " report to " + path,
				Hint: "correct report." + string(kind) + " of the policy", Err: err,
			}
		}
	}
	return nil
}

// writeReport writes a file, whole or not at all. A path that is an environment
// variable, such as $GITHUB_STEP_SUMMARY, names a file that others write to, too:
// the report is added to it.
func writeReport(inv *invocation, path string, text []byte) error {
	if name, isVariable := strings.CutPrefix(path, "$"); isVariable {
		file, set := inv.env(name)
		if !set || file == "" {
			return nil // not under that CI: nobody waits for the report
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o644)
}

func (g gateFlags) init(ctx context.Context, inv *invocation, l *ledger.Ledger) error {
	text, err := gate.Init(ctx, l, g.run)
	if err != nil {
		return err
	}
	_, err = inv.stdout.Write(text)
	return err
}

// selftestTasks is enough for every tool of a domain to be called and refused.
const selftestTasks = 60

func (g gateFlags) selftest(ctx context.Context, inv *invocation) (err error) {
	text := gate.Starting()
	if g.policy != "" {
		if text, err = os.ReadFile(g.policy); err != nil {
			return &audit.Error{Code: audit.CodeNotFound, Message: "gate policy " + g.policy, Hint: "name a readable file", Err: err}
		}
	}
	p, err := gate.Load(text)
	if err != nil {
		return err
	}
	envs := newEnvironments(inv.config)
	defer func() { err = errors.Join(err, envs.Close()) }()
	env, err := envs.Environment(ctx, g.environment)
	if err != nil {
		return err
	}
	world, err := gate.NewWorld(ctx, env, 1, selftestTasks)
	if err != nil {
		return err
	}
	trials, err := gate.Selftest(ctx, p, world, time.Now())
	for i := range trials {
		t := &trials[i]
		word := "ok   "
		if !t.Passed() {
			word = "WRONG"
		}
		fmt.Fprintf(inv.stdout, "%s  %-14s wants %-4s  got %s\n", word, t.Rehearser, t.Want, t.Verdict.Line)
	}
	return err
}

func (g gateFlags) verify(inv *invocation) error {
	text, err := readSmall(inv.args[1])
	if err != nil {
		return &audit.Error{Code: audit.CodeNotFound, Message: "gate report " + inv.args[1], Hint: "name the JSON report of a gate", Err: err}
	}
	v, err := gate.Verify(text)
	if err != nil {
		return err
	}
	fmt.Fprintln(inv.stdout, "recomputed from the report: the same verdict")
	return concludeGate(inv, v)
}

func gateSchema(inv *invocation) error {
	names := []string{"policy", "verdict"}
	if !slices.Contains(names, inv.args[1]) {
		return usageError("gate schema "+inv.args[1], suggest(inv.args[1], names))
	}
	schema := gate.PolicySchema()
	if inv.args[1] == "verdict" {
		schema = gate.VerdictSchema()
	}
	_, err := inv.stdout.Write(schema)
	return err
}
