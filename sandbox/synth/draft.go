package synth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// draft is a domain in the making: a plan, and the code written so far.
type draft struct {
	folder    string // of its own; its parent holds drafts only
	plan      Plan
	state     string
	rules     string
	tools     []tool
	scenarios []Scenario
}

// tool is the code of one operation.
type tool struct {
	operation Operation
	code      string
}

// with is the draft with a tool added, or written anew.
func (d draft) with(t tool) draft {
	d.tools = slices.Clone(d.tools)
	for i := range d.tools {
		if d.tools[i].operation.Name == t.operation.Name {
			d.tools[i] = t
			return d
		}
	}
	d.tools = append(d.tools, t)
	return d
}

// files are the domain's files: one for each piece, so that the position of a
// mistake is a position in what the author wrote.
func (d draft) files() (map[string]string, error) {
	files := map[string]string{"state.star": d.state, "rules.star": d.rules, "policy.md": d.policy()}
	order := []string{"state.star", "rules.star"}
	add := func(name, code string) {
		files[name] = code
		order = append(order, name)
	}
	for _, t := range d.tools {
		add("tool_"+t.operation.Name+".star", t.code)
	}
	for _, s := range d.scenarios {
		add("check_"+s.ID+".star", s.checkCode())
	}
	manifest, err := yaml.Marshal(starlark.Manifest{
		Name: d.plan.Name, Title: d.plan.Title, Description: d.plan.Summary,
		Versions: map[string]string{"1": "as it was synthesised"}, Files: order, Tasks: len(d.scenarios),
	})
	if err != nil {
		return nil, fmt.Errorf("encode domain.yaml: %w", err)
	}
	files["domain.yaml"] = string(manifest)
	tasks, err := tasksFile(d.scenarios)
	if err != nil {
		return nil, err
	}
	files["tasks.json"] = string(tasks)
	plan, err := json.MarshalIndent(d.plan, "", "  ")
	files["plan.json"] = string(plan)
	return files, err
}

func (d draft) policy() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n%s\n", d.plan.Title, d.plan.Summary)
	for _, rule := range d.plan.Rules {
		fmt.Fprintf(&out, "\n- %s", rule)
	}
	return out.String() + "\n"
}

// open writes the draft's files and starts it in a child. The environment is the
// caller's to close.
func (d draft) open(ctx context.Context) (*starlark.ChildEnvironment, error) {
	files, err := d.files()
	if err != nil {
		return nil, err
	}
	if err := replaceFolder(d.folder, files); err != nil {
		return nil, err
	}
	parent, name := filepath.Split(d.folder)
	return starlark.NewChildEnvironment(ctx, os.DirFS(parent), name, starlark.ChildOptions{})
}

// replaceFolder makes folder hold exactly files.
func replaceFolder(folder string, files map[string]string) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("clear %s: %w", folder, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", folder, err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write a draft: %w", err)
		}
	}
	return nil
}

// try starts the draft, and says what is wrong with it in words that its author
// can act on.
func (d draft) try(ctx context.Context, use func(*starlark.ChildEnvironment) error) error {
	env, err := d.open(ctx)
	if err == nil {
		err = errors.Join(use(env), env.Close())
	}
	if fault, ok := errors.AsType[*audit.Error](err); ok && fault.Hint != "" {
		return fmt.Errorf("%w (%s)", err, fault.Hint)
	}
	return err
}
