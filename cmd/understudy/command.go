package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// command is one subcommand.
type command struct {
	name    string
	args    string // of the usage line
	summary string // one line, a verb first
	example string // a whole command line
	verbs   []verb // of a command that does several things
	// setup registers the command's own flags, beside the settings that every
	// command knows, and returns what runs.
	setup func(*flag.FlagSet) runFunc
}

// verb is one line of a command's help: what to write after its name, and what
// that does.
type verb struct{ line, summary string }

// runFunc does a command's work. Its error decides the exit status (exit.go).
type runFunc func(ctx context.Context, inv *invocation) error

// invocation is one run of a command.
type invocation struct {
	surroundings
	config Config
	args   []string // what is left after the flags
	log    *slog.Logger
}

// commands are the subcommands in the order of help.
func commands() []command {
	return []command{
		demoCommand(),
		serveCommand(),
		workerCommand(),
		auditCommand(),
		importCommand(),
		trainCommand(),
		rolloutWorkerCommand(),
		evalCommand(),
		rehearseCommand(),
		gateCommand(),
		reportCommand(),
		probeCommand(),
		sandboxCommand(),
		tokenCommand(),
		verifyCommand(),
		dropCommand(),
		migrateCommand(),
		benchCommand(),
		versionCommand(),
		helpCommand(),
	}
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}

// execute reads the command's flags and settings and runs it.
func (c command) execute(ctx context.Context, args []string, sys surroundings) error {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // faults are reported once, by report
	given := registerSettings(fs)
	run := c.setup(fs)
	rest, err := parse(fs, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		c.printHelp(sys.stdout, fs)
		return err
	case err != nil:
		return c.flagError(err, fs)
	}
	cfg, err := loadConfig(given, sys.env)
	if err != nil {
		return err
	}
	log, err := newLogger(sys, cfg)
	if err != nil {
		return err
	}
	return run(ctx, &invocation{surroundings: sys, config: cfg, args: rest, log: log})
}

// parse lets flags stand before and after the other arguments; "--" ends them.
func parse(fs *flag.FlagSet, args []string) ([]string, error) {
	var rest, literal []string
	if end := slices.Index(args, "--"); end >= 0 {
		args, literal = args[:end], args[end+1:]
	}
	for len(args) > 0 {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if args = fs.Args(); len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	return append(rest, literal...), nil
}

// flagError names the flag that was meant, or says where they are listed.
func (c command) flagError(err error, fs *flag.FlagSet) error {
	unknown, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return usageError(c.name+": "+err.Error(), "understudy help "+c.name)
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
	unknown = "--" + strings.TrimLeft(unknown, "-")
	return usageError(c.name+": unknown flag "+unknown, cmp.Or(suggest(unknown, names), "understudy help "+c.name))
}

// printHelp explains the command: what it does, its own flags, then the settings
// by name, so that they do not push the rest off the screen.
func (c command) printHelp(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprintf(w, "understudy %s: %s\n\nusage: understudy %s\nexample: %s\n",
		c.name, c.summary, strings.Join(strings.Fields(c.name+" "+c.args+" [flags]"), " "), c.example)
	if len(c.verbs) > 0 {
		fmt.Fprintln(w)
	}
	for _, v := range c.verbs {
		fmt.Fprintf(w, "  %s %s\n      %s\n", c.name, v.line, v.summary)
	}
	known := map[string]bool{"config": true}
	cfg := Config{}
	for _, s := range settings(&cfg) {
		known[s.flag] = true
	}
	var own []*flag.Flag
	fs.VisitAll(func(f *flag.Flag) {
		if !known[f.Name] {
			own = append(own, f)
		}
	})
	if len(own) > 0 {
		fmt.Fprintln(w, "\nflags:")
	}
	for _, f := range own {
		usage := f.Usage
		if !slices.Contains([]string{"", "0", "false"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  --%-22s %s\n", f.Name, usage)
	}
	fmt.Fprintln(w, "\nsettings, of every command (understudy help config explains them):")
	printSettingNames(w)
}
