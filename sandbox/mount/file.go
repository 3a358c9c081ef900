package mount

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"understudy/audit"
)

// File is a file of environments that has no fault that can be seen in it.
type File struct {
	dir     string // that relative paths are of
	entries map[string]entry
}

// entry is the declaration of one environment.
type entry struct {
	Adapter       string                     `json:"adapter"`
	Version       string                     `json:"version"`
	Policy        string                     `json:"policy"`
	Deterministic bool                       `json:"deterministic"`
	Isolation     string                     `json:"isolation"`
	Clock         time.Time                  `json:"clock"`
	Timeout       string                     `json:"timeout"`
	OpenTimeout   string                     `json:"open_timeout"`
	Only          []string                   `json:"only"`
	Tools         map[string]toolEntry       `json:"tools"`
	Probes        []probeEntry               `json:"state_probes"`
	Tasks         []taskEntry                `json:"tasks"`
	Command       []string                   `json:"command"`
	Dir           string                     `json:"dir"`
	Env           map[string]string          `json:"env"`
	URL           string                     `json:"url"`
	Headers       map[string]string          `json:"headers"`
	SessionHeader string                     `json:"session_header"`
	Reset         json.RawMessage            `json:"reset"`
	Document      string                     `json:"document"`
	ToolNames     string                     `json:"tool_names"`
	Exclude       []string                   `json:"exclude"`
	SeedPath      string                     `json:"seed_path"`
	SeedSession   string                     `json:"seed_session"`
	EndPath       string                     `json:"end_path"`
	Outcomes      map[string]string          `json:"outcomes"`
	Kind          string                     `json:"kind"`
	Class         string                     `json:"class"`
	File          string                     `json:"file"`
	Classes       []classEntry               `json:"classes"`
	Path          []string                   `json:"path"`
	Config        json.RawMessage            `json:"config"`
	Python        string                     `json:"python"`
	Memory        int                        `json:"memory"`
	Metadata      string                     `json:"metadata"`
	Scenario      string                     `json:"scenario"`
	EnvID         string                     `json:"env_id"`
	given         map[string]json.RawMessage // every key, as it stands
	line          int
}

type toolEntry struct {
	Effect      audit.Effect    `json:"effect"`
	Role        string          `json:"role"`
	Description string          `json:"description"`
	Errors      []audit.Family  `json:"errors"`
	Input       json.RawMessage `json:"input"`
}

type classEntry struct {
	Class string   `json:"class"`
	File  string   `json:"file"`
	Tools []string `json:"tools"`
}

type probeEntry struct {
	Call      string                     `json:"call"`
	Arguments map[string]json.RawMessage `json:"arguments"`
	From      []struct {
		Path string `json:"path"`
		As   string `json:"as"`
	} `json:"args_from"`
	On    []string `json:"on"`
	At    string   `json:"at"`
	State bool     `json:"openenv_state"`
}

type taskEntry struct {
	ID       string          `json:"id"`
	Prompt   string          `json:"prompt"`
	Seeding  json.RawMessage `json:"seeding"`
	Setup    []audit.Call    `json:"setup"`
	Solution []audit.Call    `json:"solution"`
	Checks   []struct {
		Call    audit.Call      `json:"call"`
		At      string          `json:"at"`
		Equals  json.RawMessage `json:"equals"`
		Absent  bool            `json:"absent"`
		Refused audit.Family    `json:"refused"`
	} `json:"checks"`
	Functions []string `json:"check_functions"`
}

// Load reads a file of environments.
func Load(path string) (*File, error) {
	text, err := read(path)
	if err != nil {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "file of environments: " + err.Error(), Hint: "name an existing file with --environments",
		}
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return Parse(text, path, dir)
}

// read reads a file, or a pipe, and no more of it than Parse takes.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	return io.ReadAll(io.LimitReader(file, maxFile+1))
}

// maxFile bounds what is read: a file is written by hand.
const maxFile = 1 << 20

// Parse reads the text of a file. Every fault is named with its line; name is
// for messages, dir is where relative paths begin.
func Parse(text []byte, name, dir string) (*File, error) {
	faulty := func(err error) error {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: "environments of " + name, Err: err,
			Hint: "correct the lines that are named; understudy sandbox schema prints the JSON Schema for your editor",
		}
	}
	if len(text) > maxFile {
		return nil, faulty(fmt.Errorf("%d bytes; a file may have 1 MiB", len(text)))
	}
	t, err := parseTree(text)
	if err != nil {
		return nil, faulty(err)
	}
	if err := validate(t); err != nil {
		return nil, faulty(err)
	}
	raw, err := json.Marshal(t.json)
	if err != nil {
		return nil, faulty(err)
	}
	var doc struct {
		Environments map[string]json.RawMessage `json:"environments"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, faulty(err)
	}
	f := &File{dir: dir, entries: map[string]entry{}}
	var faults []error
	for _, env := range slices.Sorted(maps.Keys(doc.Environments)) {
		at := "/environments/" + escape(env)
		e := entry{line: t.line(at)}
		if err := json.Unmarshal(doc.Environments[env], &e); err != nil {
			faults = append(faults, fmt.Errorf("line %d: %s: %w", e.line, env, err))
			continue
		}
		if err := json.Unmarshal(doc.Environments[env], &e.given); err != nil {
			return nil, faulty(err)
		}
		faults = append(faults, e.check(env, func(key string) int { return t.line(at + "/" + key) })...)
		f.entries[env] = e
	}
	if len(faults) > 0 {
		return nil, faulty(errors.Join(faults...))
	}
	return f, nil
}

// Names lists the environments in order.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.entries)) }

// common are the keys that mean something with every adapter.
func common() []string {
	return []string{
		"adapter", "version", "policy", "deterministic", "isolation", "clock", "timeout", "open_timeout", "only", "tools", "state_probes", "tasks",
	}
}

// adapterKeys are, for each adapter, what it needs, what else it reads, and how it
// may keep episodes apart; the first way is the usual one.
func adapterKeys(name string) (needs, reads, isolations []string) {
	web := []string{"url", "headers", "session_header"}
	switch name {
	case "mcp-stdio":
		return []string{"command"}, []string{"dir", "env"}, []string{"process"}
	case "mcp-http":
		return []string{"url"}, web, []string{"session", "header", "none"}
	case "openenv-ws":
		return []string{"url"}, []string{"headers", "reset"}, []string{"session"}
	case "openapi-http":
		return []string{"document"}, append(web, "tool_names", "exclude", "seed_path", "seed_session", "end_path", "outcomes"), []string{"header", "session", "none"}
	case "nemo-gym":
		return []string{"url"}, append(web, "document", "exclude", "seed_path", "seed_session", "end_path", "outcomes"), []string{"session", "header"}
	case "python-class":
		return nil, []string{"kind", "class", "file", "classes", "path", "config", "python", "memory", "metadata", "scenario", "env_id"}, []string{"process"}
	}
	return nil, nil, nil // the schema refuses its name
}

// check lists what the schema cannot say.
func (e *entry) check(name string, line func(key string) int) []error {
	var faults []error
	fault := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("line %d: environments.%s: "+format, append([]any{line(key), name}, args...)...))
	}
	needs, reads, isolations := adapterKeys(e.Adapter)
	for _, key := range needs {
		if _, ok := e.given[key]; !ok {
			fault("adapter", "adapter %s needs %s", e.Adapter, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.given)) {
		if !slices.Contains(common(), key) && !slices.Contains(reads, key) && !slices.Contains(needs, key) {
			fault(key, "%s means nothing to adapter %s, which reads %s", key, e.Adapter, strings.Join(append(needs, reads...), ", "))
		}
	}
	if e.Isolation != "" && !slices.Contains(isolations, e.Isolation) {
		fault("isolation", "adapter %s cannot isolate by %s (valid: %s)", e.Adapter, e.Isolation, strings.Join(isolations, ", "))
	}
	if e.Isolation == "header" && e.SessionHeader == "" {
		fault("isolation", "isolation by header needs session_header, such as X-Session-Id")
	}
	for i, p := range e.Probes {
		if (p.Call == "") != p.State {
			fault("state_probes", "state_probes[%d] needs either call or openenv_state: true", i)
		}
		if p.State && e.Adapter != "openenv-ws" {
			fault("state_probes", "state_probes[%d]: openenv_state is for adapter openenv-ws", i)
		}
	}
	if e.Adapter == "python-class" {
		e.checkClass(fault)
	}
	return faults
}

func (e *entry) checkClass(fault func(key, format string, args ...any)) {
	one, several := e.Class != "" || e.File != "", len(e.Classes) > 0
	switch {
	case several && one || e.Metadata != "" && (several || one):
		fault("adapter", "give one of: class and file, classes, metadata")
	case e.Metadata == "" && (e.Kind == "" || !several && (e.Class == "" || e.File == "")):
		fault("adapter", "a Python class needs kind, class and file (of several: kind and classes), or metadata and env_id for one of EnvScaler's")
	case e.Metadata != "" && e.EnvID == "":
		fault("metadata", "metadata needs env_id: which of its environments?")
	}
	if len(e.Probes) > 0 {
		fault("state_probes", "a Python class shows its whole state; it needs no state_probes")
	}
	if e.Metadata != "" {
		return
	}
	if len(e.Tools) == 0 {
		fault("adapter", "a Python class needs tools: only what is declared is ever called")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Tools)) {
		if len(e.Tools[name].Input) == 0 {
			fault("tools", "tool %s needs input, the JSON Schema of its arguments", name)
		}
	}
}
