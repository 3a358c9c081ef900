package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"understudy/audit"
	"understudy/sandbox/domains"
	"understudy/sandbox/starlark"
)

// listed is one line of `sandbox list`.
type listed struct {
	Name        string            `json:"name"`
	Versions    map[string]string `json:"versions"` // label to what changed
	Tools       int               `json:"tools"`    // of the version that NAME alone means
	Tasks       int               `json:"tasks"`
	Description string            `json:"description"`
}

func sandboxList(ctx context.Context, inv *invocation, envs *environments, _ []string, f sandboxFlags) error {
	var rows []listed
	if set, err := envs.mounts(); err != nil {
		return err
	} else if set != nil {
		for _, name := range set.Names() {
			rows = append(rows, describeMounted(ctx, envs, name))
		}
	}
	for _, ref := range envs.names() {
		row, err := describe(ctx, envs, ref)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	if f.json {
		return printJSON(inv.stdout, rows)
	}
	table := tabwriter.NewWriter(inv.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tVERSIONS\tTOOLS\tTASKS\tWHAT IT IS")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", r.Name, strings.Join(starlark.Manifest{Versions: r.Versions}.Labels(), " "), r.Tools, r.Tasks, r.Description)
	}
	return table.Flush()
}

// names lists what Environment opens: shipped domains, then imported ones.
func (e *environments) names() []string {
	names := domains.Names()
	imported, _ := filepath.Glob(filepath.Join(e.dir, "*", "*", "domain.yaml")) // the pattern is well formed
	slices.Sort(imported)
	for _, file := range imported {
		dir := filepath.Dir(file)
		names = append(names, filepath.Base(filepath.Dir(dir))+":"+filepath.Base(dir))
	}
	return names
}

func describe(ctx context.Context, envs *environments, ref string) (listed, error) {
	env, err := envs.Environment(ctx, ref)
	if err != nil {
		return listed{}, err
	}
	row := listed{Name: ref}
	if e, ok := env.(*starlark.Environment); ok {
		m := e.Domain().Manifest
		row.Versions, row.Description, row.Tasks = m.Versions, m.Title, m.Tasks
	}
	tools, err := env.Tools(ctx)
	row.Tools = len(tools)
	return row, err
}

// describeMounted is the line of a declared environment. One that cannot be opened
// is listed with the reason: the others must not suffer.
func describeMounted(ctx context.Context, envs *environments, name string) listed {
	row, err := describe(ctx, envs, name)
	if err != nil {
		return listed{Name: name, Description: "cannot be opened: " + err.Error()}
	}
	env, err := envs.Environment(ctx, name)
	if err != nil {
		return row
	}
	row.Versions = map[string]string{env.Info().Version: ""}
	if k, ok := env.(interface{ Kind() string }); ok {
		row.Description = "declared; " + k.Kind()
	}
	if t, ok := env.(audit.Tasker); ok {
		if tasks, err := t.Tasks(ctx, 0, 0); err == nil {
			row.Tasks = len(tasks)
		}
	}
	return row
}

func sandboxTools(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) error {
	env, err := envs.Environment(ctx, args[0])
	if err != nil {
		return err
	}
	tools, err := env.Tools(ctx)
	if err != nil {
		return err
	}
	if len(args) > 1 {
		tool, err := findTool(tools, args[1])
		if err != nil {
			return err
		}
		tools = []audit.Tool{tool}
	}
	if f.json {
		return printJSON(inv.stdout, tools)
	}
	if len(args) > 1 {
		return printTool(inv.stdout, tools[0])
	}
	return printTools(inv.stdout, tools)
}

func findTool(tools []audit.Tool, name string) (audit.Tool, error) {
	var names []string
	for _, t := range tools {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return audit.Tool{}, &audit.Error{Code: audit.CodeNotFound, Message: "no tool " + name, Hint: suggest(name, names)}
}

func printTools(w io.Writer, tools []audit.Tool) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, t := range tools {
		who := ""
		if t.Role != "assistant" {
			who = " (" + t.Role + ")"
		}
		summary, _, _ := strings.Cut(t.Description, "\n")
		fmt.Fprintf(table, "%s\t%s%s\t%s\n", t.Name, t.Effect, who, summary)
	}
	return table.Flush()
}

func printTool(w io.Writer, t audit.Tool) error {
	fmt.Fprintf(w, "%s (%s, called by the %s): %s\n", t.Name, t.Effect, t.Role, t.Description)
	if len(t.Errors) > 0 {
		fmt.Fprintf(w, "refuses with: %v\n", t.Errors)
	}
	fmt.Fprintln(w, indented(t.Input))
	return nil
}

func sandboxTasks(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) error {
	env, err := envs.Environment(ctx, args[0])
	if err != nil {
		return err
	}
	tasks, err := tasksOf(ctx, env)
	if err != nil {
		return err
	}
	if len(args) > 1 {
		at := slices.IndexFunc(tasks, func(t audit.Task) bool { return t.ID == args[1] })
		if at < 0 {
			return &audit.Error{Code: audit.CodeNotFound, Message: "no task " + args[1], Hint: "understudy sandbox tasks " + args[0]}
		}
		return printJSON(inv.stdout, tasks[at])
	}
	if f.json {
		return printJSON(inv.stdout, tasks)
	}
	return printTasks(inv.stdout, tasks)
}

func tasksOf(ctx context.Context, env audit.Environment) ([]audit.Task, error) {
	tasker, ok := env.(audit.Tasker)
	if !ok {
		return nil, usageError(env.Info().Name+" has no tasks of its own", "understudy sandbox list")
	}
	return tasker.Tasks(ctx, 0, 0)
}

func printTasks(w io.Writer, tasks []audit.Task) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, t := range tasks {
		prompt := strings.Join(strings.Fields(t.Prompt), " ")
		if letters := []rune(prompt); len(letters) > 110 {
			prompt = string(letters[:109]) + "…"
		}
		fmt.Fprintf(table, "%s\t%d calls\t%s\n", t.ID, len(t.Solution), prompt)
	}
	return table.Flush()
}

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// indented is JSON for people; what is not JSON stays as it is.
func indented(text []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

// isDir reports whether path is a folder.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
