package main

import (
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
	return usageError("no help about "+topic, suggest(topic, append(commandNames(), "config")))
}

func printCommands(w io.Writer) {
	fmt.Fprint(w, "understudy: how faithfully does a policy rehearse its tools?\n\nusage: understudy <command> [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nexample: understudy demo\nmore: understudy help <command>, understudy help config\n")
}
