package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
)

func helpCommand() command {
	return command{
		name: "help", args: "[command | config]", summary: "list the commands, explain one, or list the settings",
		example: "understudy help serve",
		setup:   func(*flag.FlagSet) runFunc { return help },
	}
}

func help(ctx context.Context, inv *invocation) error {
	if len(inv.args) == 0 {
		printCommands(inv.stdout)
		return nil
	}
	topic := inv.args[0]
	if topic == "config" {
		printConfigHelp(inv.stdout)
		return nil
	}
	for _, c := range commands() {
		if c.name == topic {
			return c.execute(ctx, []string{"--help"}, inv.surroundings)
		}
	}
	return usageError("no help about "+topic, cmp.Or(suggest(topic, append(commandNames(), "config")), "understudy help"))
}

func printCommands(w io.Writer) {
	fmt.Fprint(w, "understudy: how faithfully does a policy rehearse its tools?\n\nusage: understudy <command> [flags]\n\n")
	width := 0
	for _, name := range commandNames() {
		width = max(width, len(name))
	}
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-*s  %s\n", width, c.name, c.summary)
	}
	fmt.Fprint(w, "\nexample: understudy demo\nmore: understudy help <command>, understudy help config\n")
}
