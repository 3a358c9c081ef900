package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace/eval"
	"understudy/sandbox/starlark"
	"understudy/sandbox/tau2"
)

// benchmark is what is played under one name.
type benchmark struct {
	name        string
	column      eval.Column
	environment audit.Digest
	tasks       []eval.Task
	notes       string
}

// openBenchmark finds a benchmark by its name:
//
//	retail, retail@2, shop    an environment with tasks, shipped, imported or declared
//	tau2:retail --data DIR    tau2-bench's domain from its files, with all its criteria
//	bfcl, bfcl:base           BFCL multi-turn files, all or those of a category
//	acebench, finmcp          their files
func (e *evaluation) openBenchmark(ctx context.Context, name string) (benchmark, error) {
	kind, part, _ := strings.Cut(name, ":")
	rules := e.rules
	if slices.Contains([]string{"bfcl", "acebench", "finmcp"}, kind) && e.flags.data == "" {
		return benchmark{}, usageError("no data", "name its folder with --data")
	}
	switch {
	case e.stage != nil && name != e.stage.recipe.Environment:
		return benchmark{}, usageError(fmt.Sprintf("a policy of the tiny format plays %s alone", e.stage.recipe.Environment), "leave the benchmark out")
	case kind == "bfcl":
		return e.openBFCL(ctx, name, part, rules)
	case kind == "acebench":
		return e.openACE(ctx, name, part, rules)
	case kind == "finmcp":
		return e.openFinMCP(name, rules)
	case kind == tau2Source && e.flags.data != "":
		return e.openTau2(ctx, name, part, rules)
	}
	return e.openEnvironment(ctx, name, rules)
}

// columnOf is the column that a domain stands in.
func columnOf(environment string) eval.Column {
	name, _, _ := strings.Cut(strings.TrimPrefix(environment, tau2Source+":"), "@")
	switch {
	case slices.Contains(tau2.Names(), name):
		return eval.Tau2
	case name == "delivery":
		return eval.Vita
	}
	return eval.Own
}

func (e *evaluation) openEnvironment(ctx context.Context, name string, rules *audit.Rules) (benchmark, error) {
	b := benchmark{name: name, column: columnOf(name)}
	env, err := e.envs.Environment(ctx, name)
	if err != nil {
		return b, err
	}
	tasker, ok := env.(audit.Tasker)
	if !ok {
		return b, &audit.Error{Code: audit.CodeUnprocessable, Message: "it has no tasks", Hint: "declare tasks of the environment, or name one that has"}
	}
	b.environment = env.Info().Digest
	seed, n := e.flags.taskSeed, e.flags.tasks
	if seed == 0 {
		n = 0 // the environment's own, of which the first are played
	}
	if s := e.stage; s != nil && seed == 0 {
		seed, n = s.recipe.Data.HeldoutSeed, s.recipe.Data.Heldout
		if e.flags.tasks == 0 {
			e.flags.tasks = s.recipe.Evaluation.Tasks
		}
	}
	tasks, err := tasker.Tasks(ctx, seed, n)
	if err != nil {
		return b, err
	}
	switch {
	case strings.HasPrefix(name, tau2Source+":"):
		b.notes = "only the terminal checks are asked: give --data for what a task wants said and judged"
	case b.column != eval.Own:
		b.notes = "our own domain and tasks, not the published benchmark's"
	}
	b.tasks, err = eval.FromEnvironment(ctx, env, tasks, rules)
	return b, err
}

// openTau2 plays tau2-bench's own tasks, with all the criteria that can be asked.
func (e *evaluation) openTau2(ctx context.Context, name, domain string, rules *audit.Rules) (benchmark, error) {
	b := benchmark{name: name, column: columnOf(name)}
	bundles, err := tau2.Import(ctx, os.DirFS(e.flags.data))
	if err != nil {
		return b, err
	}
	at := slices.IndexFunc(bundles, func(b *tau2.Bundle) bool { return b.Name == domain })
	if at < 0 {
		return b, &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("%s has no domain %q", e.flags.data, domain), Hint: "the folder holds one folder a domain: " + strings.Join(tau2.Names(), ", ")}
	}
	env := starlark.NewEnvironment(bundles[at].Domain)
	e.opened = append(e.opened, env.Close)
	b.environment = env.Info().Digest
	asked, err := env.Tasks(ctx, 0, 0)
	if err != nil {
		return b, err
	}
	if b.tasks, err = eval.FromEnvironment(ctx, env, asked, rules); err != nil {
		return b, err
	}
	scenarios, err := e.scenarios(domain)
	if err != nil {
		return b, err
	}
	return e.withCriteria(b, scenarios)
}

func (e *evaluation) scenarios(domain string) (map[string]eval.Scenario, error) {
	for _, file := range []string{"tasks.json", "tasks_small.json"} {
		text, err := os.ReadFile(filepath.Join(e.flags.data, domain, file))
		if os.IsNotExist(err) {
			continue
		}
		var scenarios map[string]eval.Scenario
		if err == nil {
			scenarios, err = eval.ReadTau2(text)
		}
		if err != nil {
			return nil, &audit.Error{Code: audit.CodeInvalid, Message: "read " + file, Err: err, Hint: "give it as tau2-bench ships it"}
		}
		return scenarios, nil
	}
	return nil, nil
}

func (e *evaluation) withCriteria(b benchmark, scenarios map[string]eval.Scenario) (benchmark, error) {
	user, err := e.another(e.flags.user)
	if err != nil {
		return b, err
	}
	judge, err := e.another(e.flags.judge)
	if err != nil {
		return b, err
	}
	var assert eval.AssertFunc
	if judge != nil {
		assert = eval.AssertBy(judge)
	}
	for i, t := range b.tasks {
		s, found := scenarios[t.ID]
		if !found {
			return b, fmt.Errorf("task %s has no scenario", t.ID)
		}
		begin := t.Begin
		b.tasks[i].Begin = func() eval.Sample {
			sample := begin()
			sample.Grade = s.Grader(sample.Grade, assert)
			return sample
		}
		if user != nil {
			talker := &eval.Talker{Ask: user, Temperature: e.flags.policy.temperature}
			b.tasks[i] = talker.Join(b.tasks[i], s.User)
			b.tasks[i].Tools = slices.DeleteFunc(slices.Clone(t.Tools), func(t audit.Tool) bool { return t.Role == "user" })
		}
	}
	b.notes = eval.Notes(scenarios, judge != nil, user != nil)
	return b, nil
}

func (e *evaluation) openFinMCP(name string, rules *audit.Rules) (benchmark, error) {
	b := benchmark{name: name, column: eval.FinMCP, notes: "calls that were not recorded are refused"}
	files := []string{e.flags.data}
	if info, err := os.Stat(e.flags.data); err == nil && info.IsDir() {
		files, _ = filepath.Glob(filepath.Join(e.flags.data, "*.json*")) // a constant pattern
	}
	if len(files) == 0 {
		return b, usageError(e.flags.data+" has no *.json or *.jsonl file", "name the file of samples with --data")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		var tasks []eval.Task
		if err == nil {
			tasks, err = eval.ReadFinMCP(text, rules)
		}
		if err != nil {
			return b, &audit.Error{Code: audit.CodeInvalid, Message: "read " + file, Err: err, Hint: "a sample is {id, messages, tool_list}: OpenAI's messages and tools"}
		}
		b.tasks = append(b.tasks, tasks...)
	}
	return b, nil
}
