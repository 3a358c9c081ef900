package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"understudy/audit"
)

// shell is an interactive session with an environment.
//
//	line ─► verb known? ─► do it
//	   └──► else a tool: TOOL {json} or TOOL key=value ... ─► answer, delta
type shell struct {
	env     audit.Environment
	tools   []audit.Tool
	out     io.Writer
	paint   paint
	session audit.Session
	task    string
	seed    uint64
	undo    []audit.SnapshotID // before each call of this session
	parents []parent           // of the forks that we are in
}

// parent is a session that was left for a fork.
type parent struct {
	session audit.Session
	undo    []audit.SnapshotID
}

func sandboxShell(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) (err error) {
	env, err := envs.Environment(ctx, args[0])
	if err != nil {
		return err
	}
	s := &shell{env: env, out: inv.stdout, seed: f.seed}
	if s.tools, err = env.Tools(ctx); err != nil {
		return err
	}
	if err := s.open(ctx, f.task); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	in, inOK := inv.stdin.(*os.File)
	out, outOK := inv.stdout.(terminalWriter)
	if !inOK || !outOK || !term.IsTerminal(int(in.Fd())) {
		return s.loop(ctx, scanned(inv.stdin))
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), old)) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out.Writer}, args[0]+"> ")
	t.AutoCompleteCallback = s.complete
	s.out, s.paint = terminalWriter{t}, paint{on: true}
	return s.loop(ctx, t.ReadLine)
}

// scanned reads lines from a pipe; io.EOF is the end.
func scanned(r io.Reader) func() (string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 2<<20) // arguments may have 1 MiB
	return func() (string, error) {
		if lines.Scan() {
			return lines.Text(), nil
		}
		if err := lines.Err(); err != nil {
			return "", fmt.Errorf("read a line: %w", err)
		}
		return "", io.EOF
	}
}

// loop does line after line. What goes wrong in one is said and is not the end.
func (s *shell) loop(ctx context.Context, next func() (string, error)) error {
	info := s.env.Info()
	fmt.Fprintf(s.out, "%s@%s, %d tools. Type help.\n", info.Name, info.Version, len(s.tools))
	for ctx.Err() == nil {
		line, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "quit" || word == "exit" {
			return nil
		}
		if err := s.do(ctx, word, strings.TrimSpace(rest)); err != nil {
			fmt.Fprintln(s.out, s.paint.red(err.Error()))
			if hint := audit.ErrorHint(err); hint != "" {
				fmt.Fprintln(s.out, "hint: "+hint)
			}
		}
	}
	return context.Cause(ctx)
}

// shellVerb is one word that the shell knows beside the tools.
type shellVerb struct {
	name, args, summary string
	run                 func(s *shell, ctx context.Context, rest string) error
}

func shellVerbs() []shellVerb {
	return []shellVerb{
		{"help", "", "this list", (*shell).help},
		{"tools", "[TOOL]", "the tools; with TOOL its arguments", (*shell).showTools},
		{"call", "TOOL {JSON}", "call a tool; `TOOL key=value ...` does the same", (*shell).callLine},
		{"state", "[/POINTER]", "the state, or the part at a JSON Pointer", (*shell).state},
		{"undo", "", "take the last call back", (*shell).undoCall},
		{"fork", "", "go on in a copy of this state; back returns", (*shell).fork},
		{"back", "", "drop the fork and return to where it began", (*shell).back},
		{"tasks", "", "the tasks", (*shell).tasks},
		{"task", "ID", "begin a task: its state, and what its user wants", (*shell).begin},
		{"check", "", "is the task done?", (*shell).check},
		{"policy", "", "the rules that an agent is told", (*shell).policy},
		{"quit", "", "leave (Ctrl-D)", nil},
	}
}

func (s *shell) do(ctx context.Context, word, rest string) error {
	if word == "" {
		return nil
	}
	for _, v := range shellVerbs() {
		if v.name == word && v.run != nil {
			return v.run(s, ctx, rest)
		}
	}
	return s.callLine(ctx, word+" "+rest)
}

func (s *shell) help(context.Context, string) error {
	for _, v := range shellVerbs() {
		fmt.Fprintf(s.out, "  %-22s %s\n", strings.TrimSpace(v.name+" "+v.args), v.summary)
	}
	return nil
}

func (s *shell) showTools(_ context.Context, name string) error {
	if name == "" {
		return printTools(s.out, s.tools)
	}
	t, err := findTool(s.tools, name)
	if err != nil {
		return err
	}
	return printTool(s.out, t)
}

// callLine calls a tool and shows what it answered and changed.
func (s *shell) callLine(ctx context.Context, line string) error {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	tool, err := findTool(s.tools, name)
	if err != nil {
		return err
	}
	arguments, err := argumentsOf(tool, strings.TrimSpace(rest))
	if err != nil {
		return err
	}
	if snapshots, ok := s.session.(audit.Snapshotter); ok && slices.Contains(s.env.Info().Capabilities, audit.CanSnapshot) {
		id, err := snapshots.Snapshot(ctx)
		if err != nil {
			return err
		}
		s.undo = append(s.undo, id)
	}
	seen, err := s.session.Call(ctx, audit.Call{Tool: tool.Name, Arguments: arguments, Role: tool.Role})
	if err != nil {
		return err
	}
	printObservation(s.out, seen, s.paint)
	return nil
}

// argumentsOf reads a JSON object, or key=value pairs by the tool's schema: a
// parameter that is a string takes the text as it stands, any other takes JSON.
func argumentsOf(t audit.Tool, text string) (json.RawMessage, error) {
	if text == "" {
		return json.RawMessage("{}"), nil
	}
	if strings.HasPrefix(text, "{") {
		return json.RawMessage(text), nil
	}
	var input struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(t.Input, &input); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t.Name, err)
	}
	values := map[string]any{}
	for _, pair := range pairs(text) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usageError(fmt.Sprintf("%q is not key=value", pair), "write "+t.Name+` {"key": "value"} or `+t.Name+" key=value")
		}
		kind := input.Properties[key].Type
		if kind == "string" || kind == nil || !json.Valid([]byte(value)) {
			values[key] = value
		} else {
			values[key] = json.RawMessage(value)
		}
	}
	return json.Marshal(values)
}

// pairs splits at spaces that stand before a key=, so that values may hold spaces.
func pairs(text string) []string {
	var found []string
	for word := range strings.FieldsSeq(text) {
		key, _, ok := strings.Cut(word, "=")
		isKey := ok && key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
		if isKey || len(found) == 0 {
			found = append(found, word)
		} else {
			found[len(found)-1] += " " + word
		}
	}
	return found
}

// complete is the terminal's tab completion of the first word.
func (s *shell) complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' || strings.Contains(line[:pos], " ") {
		return "", 0, false
	}
	var words []string
	for _, v := range shellVerbs() {
		words = append(words, v.name)
	}
	for _, t := range s.tools {
		words = append(words, t.Name)
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, line[:pos]) })
	if len(words) == 0 {
		return "", 0, false
	}
	common := words[0]
	for _, w := range words {
		for !strings.HasPrefix(w, common) {
			common = common[:len(common)-1]
		}
	}
	if len(words) == 1 {
		common += " "
	}
	return common + line[pos:], len(common), true
}
