package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"understudy/audit"
	"understudy/audit/ledger"
)

func dropCommand() command {
	return command{
		name: "drop", args: "RUN...", summary: "remove runs: their audits, figures, rewards, verdicts and jobs; results that another run holds stay with it",
		example: "understudy drop monday --dry-run",
		setup: func(fs *flag.FlagSet) runFunc {
			var d dropFlags
			fs.BoolVar(&d.dryRun, "dry-run", false, "say what would go, and remove nothing")
			fs.BoolVar(&d.yes, "yes", false, "do not ask; needed where nobody sits at a terminal")
			return func(ctx context.Context, inv *invocation) error { return d.do(ctx, inv) }
		},
	}
}

type dropFlags struct{ dryRun, yes bool }

// do shows what each run holds, asks once, and drops one after the other. What was
// dropped before an error is gone; the same command again does the rest.
func (d dropFlags) do(ctx context.Context, inv *invocation) error {
	if len(inv.args) == 0 {
		return usageError("drop needs a run's name", "understudy drop RUN --dry-run")
	}
	return withLedger(ctx, inv, func(l *ledger.Ledger) error {
		if err := printContents(ctx, inv, l); err != nil {
			return err
		}
		if d.dryRun {
			fmt.Fprintln(inv.stdout, "nothing was removed: --dry-run")
			return nil
		}
		if !d.yes {
			if err := confirmed(inv); err != nil {
				return err
			}
		}
		for _, name := range inv.args {
			if err := l.DropRun(ctx, name); err != nil {
				return err
			}
			fmt.Fprintf(inv.stdout, "dropped %s\n", audit.Plain(name))
		}
		return nil
	})
}

// printContents is a line a run; a name that is no run's ends the command before
// anything was removed.
func printContents(ctx context.Context, inv *invocation, l *ledger.Ledger) error {
	table, notes := columns{left: 3}, []string{}
	table.add("run", "policy", "started", "episodes", "open", "results", "shared", "rewards", "verdicts", "MB")
	for _, name := range inv.args {
		c, err := l.RunContents(ctx, name)
		if err != nil {
			return err
		}
		table.add(c.Run.Name, c.Run.Policy, c.Run.Started.Format("2006-01-02 15:04"), strconv.Itoa(c.Run.Episodes), count(c.Run.Open), strconv.Itoa(c.Run.Results),
			count(int(c.Shared)), count(int(c.Payments)), count(int(c.Verdicts)), fmt.Sprintf("%.1f", float64(c.Bytes)/1e6))
		if c.Run.Open > 0 {
			notes = append(notes, fmt.Sprintf("%s still has %d open episodes: their jobs end, also those that a worker holds now", audit.Plain(name), c.Run.Open))
		}
		if c.Payments > 0 {
			notes = append(notes, audit.Plain(name)+" paid rewards: a trainer that sends the same outputs again is paid again")
		}
	}
	if err := table.print(inv.stdout); err != nil {
		return err
	}
	fmt.Fprintln(inv.stdout, "\nshared = results that another run holds, too: they stay, for it")
	for _, note := range notes {
		fmt.Fprintln(inv.stdout, note)
	}
	return nil
}

// confirmed asks for the word that nobody types by mistake.
func confirmed(inv *invocation) error {
	if in, ok := inv.stdin.(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return usageError("drop asks before it removes anything, and nobody sits at a terminal", "look with --dry-run, then say --yes")
	}
	fmt.Fprintf(inv.stdout, "this cannot be undone; to drop %d run(s), type drop: ", len(inv.args))
	answer, err := bufio.NewReader(inv.stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "drop" {
		return usageError("nothing was removed", "type drop, or say --yes")
	}
	return nil
}
