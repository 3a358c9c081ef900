package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/remote"
	"understudy/sandbox/synth"
)

// synthFlags are the flags of `understudy sandbox synth`.
type synthFlags struct {
	from, model, name, embeddings string
	emit                          string
	prompt, completion            float64 // US dollars a million tokens
	options                       synth.Options
}

// synthSource is the source under which what was synthesised is mounted.
const synthSource = "synth"

func (f *synthFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.from, "from", "", "task file to find themes in: JSON Lines of API-Bank, ToolACE or chat records (synth)")
	fs.StringVar(&f.model, "model", "", "base URL of the OpenAI-compatible server whose model writes (synth)")
	fs.StringVar(&f.name, "model-name", "", "its model; needed when it serves several (synth)")
	fs.StringVar(&f.embeddings, "embeddings", "", "base URL of an embeddings server; without one, near-duplicate themes are found by shared words (synth)")
	fs.StringVar(&f.options.Out, "out", "", "folder of the domains; by default environments/synth of the data folder, where synth:NAME mounts them (synth)")
	fs.StringVar(&f.emit, "emit", "", "python: also write them as EnvScaler's classes (synth)")
	fs.IntVar(&f.options.Environments, "themes", 0, "at most so many environments, one a theme; 0 = all (synth)")
	fs.IntVar(&f.options.Scenarios, "scenarios", 5, "tasks of each environment (synth)")
	fs.IntVar(&f.options.Steps, "steps", 30, "calls of a trial (synth)")
	fs.Float64Var(&f.options.Threshold, "threshold", 0.85, "share of the trial's calls that must pass (synth)")
	fs.BoolVar(&f.options.Compat, "compat", false, "count as EnvScaler's code does: a warning passes, a call whose code broke is left out (synth)")
	fs.IntVar(&f.options.MaxTokens, "max-tokens", 0, "tokens of the whole run; 0 = no limit (synth)")
	fs.IntVar(&f.options.Parallel, "parallel", 1, "environments at once (synth)")
	fs.Float64Var(&f.prompt, "price-in", 0, "US dollars a million tokens read, for the cost column (synth)")
	fs.Float64Var(&f.completion, "price-out", 0, "US dollars a million tokens written (synth)")
}

// sandboxSynth makes environments from a task file.
func sandboxSynth(ctx context.Context, inv *invocation, envs *environments, _ []string, f sandboxFlags) error {
	s := f.synth
	switch {
	case s.from == "" || s.model == "":
		return usageError("sandbox synth: name a task file and a model server", "understudy sandbox synth --from tasks.jsonl --model http://127.0.0.1:8000/v1")
	case s.emit != "" && s.emit != "python":
		return usageError("sandbox synth: unknown format "+s.emit, "the one format is python")
	}
	if s.options.Out == "" {
		s.options.Out = filepath.Join(envs.dir, synthSource)
	}
	s.options.Progress = func(line string) { fmt.Fprintln(inv.stderr, line) }
	file, err := os.Open(s.from)
	if err != nil {
		return usageError("sandbox synth: "+err.Error(), "give a file that can be read")
	}
	requests, skipped, err := synth.ReadRequests(s.from, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if skipped > 0 {
		fmt.Fprintf(inv.stderr, "%d records without a request were skipped\n", skipped)
	}
	model, embedder, err := s.servers(inv)
	if err != nil {
		return err
	}
	report, err := synth.Run(ctx, model, embedder, requests, s.options)
	if printErr := s.print(inv, report, f.json); err == nil {
		err = printErr
	}
	switch {
	case errors.Is(err, synth.ErrBudget):
		return &audit.Error{
			Code: audit.CodeLimit, Message: fmt.Sprintf("the budget of %d tokens is spent", s.options.MaxTokens),
			Hint: "run it again with a larger --max-tokens; it goes on where it stopped",
		}
	case err != nil || s.emit == "":
		return err
	}
	return s.writePython(ctx, inv)
}

// servers are the clients of the model and of the embeddings.
func (f synthFlags) servers(inv *invocation) (synth.Model, synth.Embedder, error) {
	client := func(server, name string) (*remote.Completer, error) {
		return remote.NewCompleter(remote.Config{
			URL: server, HTTP: inv.config.typedClient(server), Model: name, APIKey: string(inv.config.PolicyKey), MaxTokens: 8192, Timeout: 10 * time.Minute,
		})
	}
	writer, err := client(f.model, f.name)
	if err != nil {
		return nil, nil, err
	}
	if f.embeddings == "" {
		fmt.Fprintln(inv.stderr, "no --embeddings: two themes are one when they share most words; near-duplicates in other words stay")
		return synthModel{writer}, synth.HashedGrams{}, nil
	}
	embedder, err := client(f.embeddings, "")
	return synthModel{writer}, embedder, err
}

// synthModel is a model server as the author of environments.
type synthModel struct{ completer *remote.Completer }

// Complete implements synth.Model.
func (m synthModel) Complete(ctx context.Context, p synth.Prompt) (string, synth.Tokens, error) {
	messages := []envace.Message{{Role: "system", Content: p.System}, {Role: "user", Content: p.User}}
	text, usage, err := m.completer.Complete(ctx, messages, p.Schema, p.Temperature)
	if errors.Is(err, remote.ErrTruncated) {
		err = synth.ErrTruncated
	}
	return text, synth.Tokens{Prompt: usage.Prompt, Completion: usage.Completion}, err
}

func (f synthFlags) print(inv *invocation, report synth.Report, asJSON bool) error {
	if asJSON {
		return printJSON(inv.stdout, report)
	}
	price := synth.Price{Prompt: f.prompt, Completion: f.completion}
	table := columns{left: 1}
	table.add("environment", "tools", "state", "rules", "pass", "of", "rate", "tasks", "tokens", "USD")
	for _, e := range report.Environments {
		name := e.Name
		if !e.Accepted {
			name += " (rejected)"
		}
		table.add(name, strconv.Itoa(e.Tools), strconv.Itoa(e.Categories), strconv.Itoa(e.Rules), strconv.Itoa(e.Score.Pass), strconv.Itoa(e.Score.Steps),
			fmt.Sprintf("%.2f", e.Score.Rate(report.Compat)), strconv.Itoa(e.Scenarios), strconv.Itoa(e.AllTokens()), usd(price, e.Cost(price)))
	}
	if err := table.print(inv.stdout); err != nil {
		return err
	}
	for _, e := range report.Environments {
		if e.Reason != "" {
			fmt.Fprintf(inv.stdout, "%s: %s\n", e.Name, e.Reason)
		}
		for _, why := range append(e.Dropped, e.Refused...) {
			fmt.Fprintf(inv.stdout, "%s: left out %s\n", e.Name, why)
		}
	}
	ours, theirs := report.Averages(price), synth.EnvScaler()
	fmt.Fprintf(inv.stdout, "\n%d requests, %d themes, %d different; %d environments and %d tasks accepted in %s\n",
		report.Requests, report.Mined, report.Themes, ours.Environments, ours.Scenarios, f.options.Out)
	means := columns{left: 1}
	means.add("mean", "tools", "state", "rules", "USD an environment", "USD a task")
	row := func(name string, a synth.Averages, price synth.Price) {
		means.add(name, fmt.Sprintf("%.2f", a.Tools), fmt.Sprintf("%.2f", a.Categories), fmt.Sprintf("%.2f", a.Rules), usd(price, a.Environment), usd(price, a.Scenario))
	}
	row("here", ours, price)
	row("EnvScaler", theirs, synth.Price{Prompt: 1})
	return means.print(inv.stdout)
}

// usd is an amount, or a dash where no price was given.
func usd(price synth.Price, amount float64) string {
	if price == (synth.Price{}) {
		return "–"
	}
	return fmt.Sprintf("%.4f", amount)
}

func (f synthFlags) writePython(ctx context.Context, inv *invocation) error {
	written, refused, err := synth.WritePython(ctx, f.options.Out)
	if err != nil {
		return err
	}
	for _, why := range refused {
		fmt.Fprintf(inv.stdout, "not written in Python: %s\n", why)
	}
	_, err = fmt.Fprintf(inv.stdout, "%s and %s hold %d: %s\n", filepath.Join(f.options.Out, synth.PythonMetadata), synth.PythonScenarios, len(written), strings.Join(written, ", "))
	return err
}
