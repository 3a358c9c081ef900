package main

import (
	"context"
	"flag"
	"strings"

	"understudy/audit"
)

// sandboxFlags are the flags of `understudy sandbox`; each verb reads its own.
type sandboxFlags struct {
	task  string // start in the state of this task
	seed  uint64 // of new ids, and of a check's draws
	role  string // who calls: assistant or user
	json  bool
	data  string // folder to import from
	calls int    // of a check's soak
	save  bool   // keep a contract in the ledger
	http  string // address to serve MCP on; "" = stdin and stdout
	synth synthFlags
}

// sandboxVerb is one thing to do with an environment.
type sandboxVerb struct {
	name, args, summary string
	least               int // arguments after the verb
	run                 func(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) error
}

func sandboxVerbs() []sandboxVerb {
	return []sandboxVerb{
		{"list", "", "the environments of this machine", 0, sandboxList},
		{"tools", "NAME [TOOL]", "its tools; with TOOL the arguments of one", 1, sandboxTools},
		{"tasks", "NAME [ID]", "its tasks; with ID the whole task", 1, sandboxTasks},
		{"call", "NAME TOOL [ARGUMENTS]", "one call from a fresh state, its answer and what it changed", 2, sandboxCall},
		{"check", "NAME", "tasks, kill rate and soak: is the environment fit to judge by?", 1, sandboxCheck},
		{"contract", "NAME", "what an auditor relies on: seeds, isolation, forks, errors", 1, sandboxContract},
		{"serve-mcp", "NAME", "offer it to MCP clients, on stdin and stdout or over HTTP; each gets a world of its own", 1, sandboxServeMCP},
		{"schema", "", "the JSON Schema of a file of environments, for your editor", 0, sandboxSchema},
		{"shell", "NAME", "try it by hand, and see what each call changes", 1, sandboxShell},
		{"synth", "--from FILE --model URL", "make new environments from recorded requests, with a model as their author", 0, sandboxSynth},
		{"import", "tau2 --data DIR", "mount tau2-bench's own states, tasks and policies", 1, sandboxImport},
	}
}

func sandboxCommand() command {
	var verbs []verb
	for _, v := range sandboxVerbs() {
		verbs = append(verbs, verb{strings.TrimSpace(v.name + " " + v.args), v.summary})
	}
	return command{
		name: "sandbox", args: "VERB [NAME ...]", summary: "list, check, call and try the executable environments",
		example: "understudy sandbox shell retail-mini@3",
		verbs:   verbs,
		setup: func(fs *flag.FlagSet) runFunc {
			var f sandboxFlags
			fs.StringVar(&f.task, "task", "", "start in the state of this task (call, shell, serve-mcp)")
			fs.Uint64Var(&f.seed, "seed", 0, "seed of new ids (call, shell, serve-mcp) and of the draws (check)")
			fs.StringVar(&f.role, "role", "", "who calls, assistant or user; the tool's own by default (call)")
			fs.BoolVar(&f.json, "json", false, "print JSON (list, tools, tasks, call, contract)")
			fs.StringVar(&f.data, "data", "", "folder with the folders retail, airline, telecom (import)")
			f.synth.register(fs)
			fs.IntVar(&f.calls, "calls", 20_000, "random calls (check)")
			fs.BoolVar(&f.save, "save", false, "keep the outcome in the ledger, for the dashboard (contract)")
			fs.StringVar(&f.http, "http", "", "serve streamable HTTP at this address instead of stdin and stdout; beyond this machine clients need an auditor's token (serve-mcp)")
			return func(ctx context.Context, inv *invocation) error { return runSandbox(ctx, inv, f) }
		},
	}
}

func runSandbox(ctx context.Context, inv *invocation, f sandboxFlags) (err error) {
	var names, usage []string
	for _, v := range sandboxVerbs() {
		names = append(names, v.name)
		usage = append(usage, "understudy sandbox "+strings.TrimSpace(v.name+" "+v.args)+": "+v.summary)
	}
	if len(inv.args) == 0 {
		return usageError("sandbox: name what to do", strings.Join(usage, "\n      "))
	}
	verb, args := inv.args[0], inv.args[1:]
	for _, v := range sandboxVerbs() {
		if v.name != verb {
			continue
		}
		if len(args) < v.least {
			return usageError("sandbox "+verb+": an argument is missing", "understudy sandbox "+verb+" "+v.args)
		}
		envs := newEnvironments(inv.config)
		defer func() {
			if closeErr := envs.Close(); err == nil {
				err = closeErr
			}
		}()
		return v.run(ctx, inv, envs, args, f)
	}
	return usageError("sandbox: unknown "+verb, suggest(verb, names))
}

// start is where a session begins.
func (f sandboxFlags) start() audit.Start { return audit.Start{Task: f.task, Seed: f.seed} }
