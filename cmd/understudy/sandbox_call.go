package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/sandbox/proof"
	"understudy/sandbox/tau2"
)

func sandboxCall(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) (err error) {
	env, err := envs.Environment(ctx, args[0])
	if err != nil {
		return err
	}
	call := audit.Call{Tool: args[1], Arguments: json.RawMessage("{}"), Role: f.role}
	if len(args) > 2 {
		call.Arguments = json.RawMessage(args[2])
	}
	if call.Role == "" {
		call.Role = roleOf(ctx, env, call.Tool)
	}
	session, err := env.Open(ctx, f.start())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	seen, err := session.Call(ctx, call)
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(inv.stdout, seen)
	}
	printObservation(inv.stdout, seen, paint{})
	return nil
}

// roleOf is who may call the tool; an unknown tool is the assistant's mistake.
func roleOf(ctx context.Context, env audit.Environment, tool string) string {
	tools, err := env.Tools(ctx)
	if err != nil {
		return ""
	}
	t, err := findTool(tools, tool)
	if err != nil {
		return "assistant"
	}
	return t.Role
}

// paint colours text for a terminal; the zero value leaves it plain.
type paint struct{ on bool }

func (p paint) red(s string) string    { return p.with("31", s) }
func (p paint) green(s string) string  { return p.with("32", s) }
func (p paint) yellow(s string) string { return p.with("33", s) }
func (p paint) dim(s string) string    { return p.with("2", s) }

func (p paint) with(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// printObservation shows an answer for people: its status, its body, and every
// cell that it changed.
func printObservation(w io.Writer, seen audit.Observation, p paint) {
	switch seen.Status {
	case audit.StatusOK:
		fmt.Fprintln(w, p.green("ok"))
		fmt.Fprintln(w, indented(seen.Raw))
	case audit.StatusRefused, audit.StatusInvalid:
		family, why := reasonOf(seen)
		fmt.Fprintln(w, p.red(string(seen.Status)+" "+family+": ")+why)
	case audit.StatusFault, audit.StatusUnknown:
		_, why := reasonOf(seen)
		fmt.Fprintln(w, p.red(string(seen.Status)+": ")+why)
	}
	if seen.Delta == nil && (seen.Status == audit.StatusOK || seen.Status == audit.StatusUnknown) {
		fmt.Fprintln(w, p.dim("what it changed is not known: nothing shows the state of this environment (state_probes)"))
		return
	}
	printDelta(w, seen.Delta, p)
}

// reasonOf is the family of what went wrong, and what is said of it; an environment
// may say it in its answer alone.
func reasonOf(seen audit.Observation) (family, why string) {
	if seen.Error == nil {
		return "", string(seen.Raw)
	}
	return string(seen.Error.Family), cmp.Or(seen.Error.Message, string(seen.Raw))
}

func printDelta(w io.Writer, delta diff.Patch, p paint) {
	if len(delta) == 0 {
		fmt.Fprintln(w, p.dim("nothing changed"))
		return
	}
	fmt.Fprintf(w, "changed %d:\n", len(delta))
	for _, op := range delta {
		switch op.Op {
		case "add":
			fmt.Fprintf(w, "  %s %s %s\n", p.green("+"), op.Path, p.green(string(op.Value)))
		case "remove":
			fmt.Fprintf(w, "  %s %s %s\n", p.red("-"), op.Path, p.red(string(op.Old)))
		default:
			fmt.Fprintf(w, "  %s %s %s → %s\n", p.yellow("~"), op.Path, p.red(string(op.Old)), p.green(string(op.Value)))
		}
	}
}

// sandboxCheck proves an environment's tasks and soaks its rules.
func sandboxCheck(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) error {
	env, err := envs.Environment(ctx, args[0])
	if err != nil {
		return err
	}
	info := env.Info()
	fmt.Fprintf(inv.stdout, "%s@%s  %s\n", info.Name, info.Version, info.Digest)
	tasks, err := proof.Tasks(ctx, env, proof.TaskConfig{Seed: f.seed})
	if err != nil {
		return err
	}
	tasks.Print(inv.stdout)
	faults, survivors := tasks.Faults(), tasks.Survivors()
	for _, text := range faults {
		fmt.Fprintln(inv.stdout, "fault      "+text)
	}
	for _, text := range survivors {
		fmt.Fprintln(inv.stdout, "survivor   "+text)
	}
	soak, err := proof.Soak(ctx, env, proof.SoakConfig{Calls: f.calls, Seed: f.seed})
	switch {
	case errors.Is(err, proof.ErrCannotSoak):
		fmt.Fprintln(inv.stdout, "soak       none: "+err.Error())
		soak = &proof.SoakReport{}
	case err != nil:
		return err
	default:
		soak.Print(inv.stdout)
	}
	if len(faults)+len(soak.Findings) > 0 {
		return &gateError{status: exitFailed, text: fmt.Sprintf("%s: %d task faults, %d soak findings", args[0], len(faults), len(soak.Findings))}
	}
	return nil
}

// sandboxImport mounts data that people have on their disk.
func sandboxImport(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) error {
	if args[0] != tau2Source {
		return usageError("sandbox import: unknown source "+args[0], "understudy sandbox import tau2 --data DIR")
	}
	if !isDir(f.data) {
		return usageError(fmt.Sprintf("sandbox import: %q is not a folder", f.data), "name the folder that holds retail, airline and telecom: --data DIR")
	}
	bundles, err := tau2.Import(ctx, os.DirFS(f.data))
	if err != nil {
		return err
	}
	for _, b := range bundles {
		if err := b.Write(filepath.Join(envs.dir, tau2Source)); err != nil {
			return &audit.Error{Code: audit.CodeInfrastructure, Message: "store what was imported", Err: err, Hint: "choose another place with --data-dir"}
		}
		fmt.Fprintf(inv.stdout, "%s:%s  %d tasks, %d tools\n", tau2Source, b.Name, b.Tasks, len(b.Domain.Tools()))
	}
	return nil
}
