// Command understudy audits how faithfully a policy that rehearses its
// environment stands in for the real one. `understudy help` lists what it can
// do; this package alone wires the packages that do it.
//
// main.go reads the command line, command.go lists the commands (one file each),
// config.go and setting.go hold the configuration, resources.go opens the ledger
// and the transport, service.go is Main, what `serve` and end-to-end tests run.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// softMemory is where the collector begins to work harder: a 100 MB episode
// leaves garbage of twenty times its size, of which little is alive at once.
const softMemory = 1200 << 20

// gcPercent lets garbage grow to four times what is alive before it is collected,
// below softMemory: an audit leaves much garbage that lives briefly, and collecting
// it a quarter as often saves a fifth of an audit's processor time (measured by
// BenchmarkAuditsInSandbox of audit/queue).
const gcPercent = 400

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

func main() {
	starlark.ChildMain() // a sandbox child is this binary too
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemory)
		if _, set := os.LookupEnv("GOGC"); !set {
			debug.SetGCPercent(gcPercent)
		}
	}
	ctx, stop := interruptible(context.Background())
	status := execute(ctx, os.Args[1:], system())
	stop()
	os.Exit(status)
}

// interruptible ends the context with the first SIGINT or SIGTERM, so that work
// is finished in order; the second one ends the program as it would have anyway.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, func() { cancel(nil) }
}

// surroundings is what a command sees of the process that it runs in.
type surroundings struct {
	env            func(string) (string, bool)
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool // stderr is one
}

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string, sys surroundings) int {
	err := dispatch(ctx, args, sys)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if _, decided := errors.AsType[*gateError](err); err != nil && !decided { // a gate's verdict is printed already, last of all
		report(sys.stderr, interrupted(ctx, err))
	}
	return exitStatus(err)
}

// interrupted is what to say of an error: where a signal ended the work, that first,
// and no remedy. At which step a context ended is nobody's concern; what else was
// wrong is.
func interrupted(ctx context.Context, err error) error {
	switch {
	case !errors.Is(context.Cause(ctx), errInterrupted) || errors.Is(err, errInterrupted):
		return err // the latter says itself what it was, and how to go on
	case errors.Is(err, context.Canceled):
		return errInterrupted
	default:
		return errors.New("interrupted: " + err.Error())
	}
}

// report prints an error for people: what is wrong, and what to do.
func report(w io.Writer, err error) {
	fmt.Fprintln(w, "understudy:", strings.ReplaceAll(audit.Plain(err.Error()), "\n", "\n  "))
	if hint := audit.ErrorHint(err); hint != "" {
		fmt.Fprintln(w, "hint:", audit.Plain(hint))
	}
}

func dispatch(ctx context.Context, args []string, sys surroundings) error {
	if len(args) == 0 {
		printCommands(sys.stderr)
		return usageError("name a command", "understudy help")
	}
	if trace, traced := sys.env("TRACEPARENT"); traced { // of the pipeline that runs us
		ctx = audit.WithTrace(ctx, trace)
	}
	name, rest := args[0], args[1:]
	if slices.Contains([]string{"-h", "-help", "--help"}, name) {
		name, rest = "help", nil
	}
	if name == "--version" {
		name = "version"
	}
	for _, c := range commands() {
		if c.name == name {
			return c.execute(ctx, rest, sys)
		}
	}
	return usageError("unknown command "+name, cmp.Or(suggest(name, commandNames()), "understudy help"))
}

// usageError is a fault of the command line, the environment or the file.
func usageError(message, hint string) error {
	return &audit.Error{Code: audit.CodeInvalid, Message: message, Hint: hint}
}
