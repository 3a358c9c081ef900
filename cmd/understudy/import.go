package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/trace"
)

// importFlags say how trajectory files are read, and into which run.
type importFlags struct {
	run         string
	format      string
	environment string
	policyName  string
	answers     string
	mode        string
}

func (f *importFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.run, "run", "", "name of the run; by default the first file's name and the time")
	fs.StringVar(&f.format, "format", "", "one of "+strings.Join(trace.Formats(), ", ")+"; by default it is detected")
	fs.StringVar(&f.environment, "environment", "", "sandbox to audit against, such as retail@1; by default what the file names")
	fs.StringVar(&f.policyName, "policy-name", "", "name of the policy that acted; by default what the file says")
	fs.StringVar(&f.answers, "answers", string(trace.AsRehearsal), "what the recorded answers are: rehearsal, real, or both")
	fs.StringVar(&f.mode, "mode", string(audit.Open), "forced (history = executed truth) or open (history = rehearsed world)")
}

func (f *importFlags) validate() error {
	switch trace.Answers(f.answers) {
	case trace.AsRehearsal, trace.AsReal, trace.AsBoth:
	default:
		return usageError(fmt.Sprintf("--answers %q", f.answers), suggest(f.answers, []string{"rehearsal", "real", "both"}))
	}
	switch audit.Mode(f.mode) {
	case audit.Forced, audit.Open:
		return nil
	case audit.Probe, audit.Canary:
	}
	return usageError(fmt.Sprintf("--mode %q", f.mode), "recorded trajectories are audited in mode forced or open")
}

func importCommand() command {
	return command{
		name: "import", args: "FILE...", summary: "queue recorded trajectories of thirteen formats as a run",
		example: "understudy import results.json --environment retail@1 --run monday",
		setup: func(fs *flag.FlagSet) runFunc {
			var f importFlags
			f.register(fs)
			return func(ctx context.Context, inv *invocation) error { return importFiles(ctx, inv, f) }
		},
	}
}

func importFiles(ctx context.Context, inv *invocation, f importFlags) error {
	if err := f.validate(); err != nil {
		return err
	}
	if len(inv.args) == 0 {
		return usageError("import needs a file", "understudy import results.json --environment retail@1")
	}
	return withLedger(ctx, inv, func(l *ledger.Ledger) (err error) {
		envs := newEnvironments(inv.config)
		defer func() { err = errors.Join(err, envs.Close()) }()
		run, err := intake{ledger: l, envs: envs, flags: f}.files(ctx, inv, inv.args)
		if err != nil {
			return err
		}
		fmt.Fprintf(inv.stdout, "queued as run %s; a running service audits it, or: understudy audit --run %s\n", run, audit.ShellWord(run))
		return nil
	})
}

// intake takes trajectory files into a run.
type intake struct {
	ledger *ledger.Ledger
	envs   *environments
	flags  importFlags
}

// intakeBatch bounds what is held of a file at once.
const intakeBatch = 200

// files queues the episodes of every file and returns the run's name.
func (in intake) files(ctx context.Context, inv *invocation, paths []string) (string, error) {
	name := in.flags.run
	if name == "" {
		name = runName(strings.TrimSuffix(filepath.Base(paths[0]), filepath.Ext(paths[0])), time.Now())
	}
	// Made with the first episodes, so that files which cannot be read leave no run behind.
	run := sync.OnceValue(func() error { return in.ensureRun(ctx, inv, name) })
	read := 0
	for _, path := range paths {
		queued, report, err := in.file(ctx, inv, path, func(batch []audit.Episode) (int, error) {
			if err := run(); err != nil {
				return 0, err
			}
			return in.ledger.Enqueue(ctx, name, batch)
		})
		if err != nil {
			return "", err
		}
		read += report.Episodes
		fmt.Fprintf(inv.stdout, "%s: %s\n", path, report)
		if known := report.Episodes - queued; known > 0 {
			fmt.Fprintf(inv.stdout, "%s: %d episodes were in run %s already\n", path, known, name)
		}
	}
	if read == 0 {
		return "", usageError("there is no tool call in "+strings.Join(paths, ", "), "name trajectories with tool calls, or their --format")
	}
	return name, nil
}

// ensureRun makes the run, or goes on with one of that name.
func (in intake) ensureRun(ctx context.Context, inv *invocation, name string) error {
	_, err := in.ledger.CreateRun(ctx, audit.NewRun{Name: name, Policy: in.flags.policyName, Settings: inv.config.Effective()})
	if in.flags.run != "" && audit.ErrorCode(err) == audit.CodeConflict {
		return nil // asked for by name: more episodes for it
	}
	return err
}

// file reads one file and hands its episodes, in batches, to enqueue.
func (in intake) file(
	ctx context.Context, inv *invocation, path string, enqueue func([]audit.Episode) (int, error),
) (queued int, report trace.Report, err error) {
	progress := inv.newProgress("import "+filepath.Base(path), 0)
	defer progress.end()
	var batch []audit.Episode
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		n, err := enqueue(batch)
		queued += n
		progress.add(len(batch))
		batch = batch[:0]
		return err
	}
	checked := map[string]bool{}
	report, err = trace.Import(path, trace.Options{
		Format: in.flags.format, Environment: in.flags.environment, Policy: in.flags.policyName,
		Mode: audit.Mode(in.flags.mode), Answers: trace.Answers(in.flags.answers),
	}, func(e audit.Episode) error {
		if !checked[e.Environment] {
			if err := in.checkEnvironment(ctx, e.Environment, path); err != nil {
				return err
			}
			checked[e.Environment] = true
		}
		if batch = append(batch, e); len(batch) < intakeBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return queued, report, err
}

// checkEnvironment fails early: an episode whose sandbox nobody can open would
// only become a dead letter.
func (in intake) checkEnvironment(ctx context.Context, ref, path string) error {
	if ref == "" {
		return usageError(path+" does not say which sandbox its calls belong to", "name it: --environment retail@1 (understudy sandbox list)")
	}
	_, err := in.envs.Environment(ctx, ref)
	return err
}

// runName makes a name that sorts by time.
func runName(stem string, now time.Time) string {
	return stem + "-" + now.UTC().Format("20060102-150405")
}
