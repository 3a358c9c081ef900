package synth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/audit/atomicfile"
)

// Options say what to make. Zero values mean the defaults.
type Options struct {
	Out          string  // folder of the domains; made if it is missing
	Environments int     // at most so many themes are tried; 0 = all
	Scenarios    int     // of each environment; default 5
	Steps        int     // of a trial; default 30
	Threshold    float64 // of the pass rate; default 0.85
	Nearness     float64 // cosine from which two themes are one; default 0.85
	Rounds       int     // of mending after a failed trial; default 1, negative = none
	Compat       bool    // EnvScaler's pass rate: warnings pass, broken steps do not count
	MaxTokens    int     // of the whole run; 0 = no limit
	Parallel     int     // environments at once; default 1
	Progress     func(line string)
}

func (o Options) withDefaults() Options {
	or := func(value *int, fallback int) {
		if *value == 0 {
			*value = fallback
		}
	}
	or(&o.Scenarios, 5)
	or(&o.Steps, 30)
	or(&o.Rounds, 1)
	or(&o.Parallel, 1)
	if o.Threshold == 0 {
		o.Threshold = 0.85
	}
	if o.Nearness == 0 {
		o.Nearness = 0.85
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// The folders and files of a run, under Options.Out. A name with a dot is no domain.
const (
	themesFile   = "themes.json"    // what was mined: a second run goes on from here
	reportFile   = "synthesis.json" // of one environment, in its folder
	makingFolder = ".making"        // drafts
	rejectFolder = ".rejected"      // what did not reach the threshold, to look at
)

// run is one synthesis.
type run struct {
	Options
	model  Model
	budget *budget

	mu    sync.Mutex
	names map[string]bool // folders that are taken
}

// Run mines requests for themes and makes an environment of each. What an earlier
// run in the same folder made is kept and not made again. A spent budget and a
// cancelled context end the run early: the report of what was made comes with the
// error.
func Run(ctx context.Context, model Model, embedder Embedder, requests []string, options Options) (Report, error) {
	o := options.withDefaults()
	r := &run{Options: o, model: model, budget: &budget{limit: int64(o.MaxTokens)}, names: map[string]bool{}}
	if err := os.MkdirAll(filepath.Join(o.Out, makingFolder), 0o755); err != nil {
		return Report{}, fmt.Errorf("make the output folder: %w", err)
	}
	mined, err := r.themes(ctx, embedder, requests)
	report := Report{Requests: len(requests), Mined: mined.Mined, Themes: len(mined.Themes), MiningTokens: mined.Tokens, Compat: o.Compat, Threshold: o.Threshold}
	if err != nil {
		return report, err
	}
	done, err := r.finished()
	if err != nil {
		return report, err
	}
	themes := mined.Themes
	if o.Environments > 0 {
		themes = themes[:min(len(themes), o.Environments)]
	}
	made := make([]*Environment, len(themes))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(o.Parallel)
	for i, theme := range themes {
		if earlier, ok := done[theme.Name]; ok {
			made[i] = &earlier
			continue
		}
		group.Go(func() error {
			env, err := r.make(groupCtx, theme)
			made[i] = &env
			return err
		})
	}
	err = group.Wait()
	for _, env := range made {
		if env != nil && env.Theme != "" {
			report.Environments = append(report.Environments, *env)
		}
	}
	return report, err
}

// mined is the content of themes.json.
type mined struct {
	Mined  int     `json:"mined"` // before near-duplicates were dropped
	Themes []Theme `json:"themes"`
	Tokens Tokens  `json:"tokens"`
}

// themes are those of an earlier run in this folder, or are mined now.
func (r *run) themes(ctx context.Context, embedder Embedder, requests []string) (mined, error) {
	path := filepath.Join(r.Out, themesFile)
	var m mined
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &m); err != nil {
			return m, &audit.Error{Code: audit.CodeInvalid, Message: "read " + path, Err: err, Hint: "delete it to mine the requests anew"}
		}
		r.Progress(fmt.Sprintf("%d themes of an earlier run", len(m.Themes)))
		return m, nil
	}
	a := &author{model: r.model, budget: r.budget}
	all, err := mine(ctx, a, requests)
	m.Mined, m.Tokens = len(all), a.tokens
	if err != nil {
		return m, err
	}
	if m.Themes, err = distinct(ctx, embedder, all, r.Nearness); err != nil {
		return m, err
	}
	r.Progress(fmt.Sprintf("%d requests, %d themes, %d different ones", len(requests), m.Mined, len(m.Themes)))
	return m, writeJSON(path, m)
}

// finished are the environments that earlier runs made or rejected, by theme.
func (r *run) finished() (map[string]Environment, error) {
	done := map[string]Environment{}
	for _, folder := range []string{r.Out, filepath.Join(r.Out, rejectFolder)} {
		paths, err := filepath.Glob(filepath.Join(folder, "*", reportFile))
		if err != nil {
			return nil, fmt.Errorf("look for earlier environments: %w", err)
		}
		for _, path := range paths {
			var env Environment
			text, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(text, &env)
			}
			if err != nil {
				return nil, &audit.Error{Code: audit.CodeInvalid, Message: "read " + path, Err: err, Hint: "delete the folder to make the environment anew"}
			}
			done[env.Theme] = env
			r.names[env.Name] = true
		}
	}
	return done, nil
}

// make makes one environment. Whatever is wrong with it is its own: only a spent
// budget, an unreachable model and a full disk end the run.
func (r *run) make(ctx context.Context, theme Theme) (Environment, error) {
	a := &author{model: r.model, budget: r.budget}
	env := Environment{Theme: theme.Name}
	d, err := r.build(ctx, a, theme, &env)
	env.Tokens = a.tokens
	if err == nil {
		if env.Accepted = env.Score.Rate(r.Compat) >= r.Threshold; !env.Accepted {
			env.Reason = fmt.Sprintf("%.2f of the trial's calls passed, %.2f are needed", env.Score.Rate(r.Compat), r.Threshold)
		}
	}
	if env.Accepted {
		d, err = r.scenarios(ctx, a, d, &env)
		env.ScenarioTokens = Tokens{a.tokens.Prompt - env.Tokens.Prompt, a.tokens.Completion - env.Tokens.Completion}
	}
	if ends(ctx, err) {
		return Environment{}, err // a second run makes it anew
	}
	if err != nil {
		env.Reason = err.Error()
	}
	r.Progress(env.line(r.Compat))
	return env, r.keep(d, env)
}

// ends says whether an error is the run's and not the environment's.
func ends(ctx context.Context, err error) bool {
	return errors.Is(err, ErrBudget) || ctx.Err() != nil || errors.Is(err, errModel)
}

func (r *run) build(ctx context.Context, a *author, theme Theme, env *Environment) (draft, error) {
	p, err := plan(ctx, a, theme)
	if err != nil {
		env.Name = r.claim(slug(theme.Name))
		return draft{plan: Plan{Name: env.Name}}, err
	}
	p.Name = r.claim(p.Name)
	d := draft{plan: p, folder: filepath.Join(r.Out, makingFolder, p.Name)}
	env.Name, env.Categories, env.Rules = p.Name, len(p.State), len(p.Rules)
	if d, env.Dropped, err = write(ctx, a, d); err != nil {
		return d, err
	}
	env.Tools = len(d.tools)
	for round := 0; ; round++ {
		if env.Score, env.Steps, err = trial(ctx, a, d, r.Steps); err != nil {
			return d, fmt.Errorf("try %s: %w", p.Name, err)
		}
		env.Rounds = round
		if env.Score.Rate(r.Compat) >= r.Threshold || round >= r.Rounds {
			return d, nil
		}
		var mended int
		if d, mended, err = mend(ctx, a, d, env.Steps); err != nil || mended == 0 {
			return d, err
		}
	}
}

// claim finds a name that no other environment of the folder has.
func (r *run) claim(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	free := name
	for n := 2; r.names[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	r.names[free] = true
	return free
}

func (r *run) scenarios(ctx context.Context, a *author, d draft, env *Environment) (draft, error) {
	for range r.Scenarios {
		with, err := imagine(ctx, a, d)
		if ends(ctx, err) {
			return d, err
		}
		if err != nil {
			env.Refused = append(env.Refused, err.Error())
			continue
		}
		d = with
	}
	env.Scenarios = len(d.scenarios)
	return d, nil
}

// keep moves the draft to where it belongs, with its report.
func (r *run) keep(d draft, env Environment) error {
	folder := filepath.Join(r.Out, d.plan.Name)
	if !env.Accepted {
		folder = filepath.Join(r.Out, rejectFolder, d.plan.Name)
	}
	files := map[string]string{}
	if d.folder != "" {
		var err error
		if files, err = d.files(); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(env, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report of %s: %w", env.Name, err)
	}
	files[reportFile] = string(text)
	making := filepath.Join(r.Out, makingFolder, d.plan.Name)
	if err := replaceFolder(making, files); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("keep %s: %w", env.Name, err)
	}
	return atomicfile.MoveFolder(making, folder)
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return atomicfile.Write(path, text, 0o600)
}
