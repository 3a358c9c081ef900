package pyclass

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// Kind is the convention that a class follows.
type Kind string

// The kinds of class.
const (
	EnvScaler Kind = "envscaler" // constructor(config), {"success": false, "error": ...}
	BFCL      Kind = "bfcl"      // _load_scenario(config), {"error": ...}
	ACEBench  Kind = "acebench"  // _load_scenario(config), {"status": false, "message": ...}
	Tau2      Kind = "tau2"      // a toolkit: ValueError refuses
)

// Spec describes an environment: one class, or several that share a world.
type Spec struct {
	Name    string
	Version string
	Kind    Kind
	Class   string          // the class's name
	Source  string          // its text, or
	File    string          // a Python file on the user's disk
	Classes []Class         // instead of these three: several, as BFCL's tasks use them; Config and state are then keyed by class
	Path    []string        // folders that files import from
	Tools   []audit.Tool    // what may be called; nothing else ever is
	Config  json.RawMessage // initial configuration; Start.State overrides it
	Tasks   []Scenario      // tasks with check functions (EnvScaler)
	Clock   time.Time       // the world's now; zero = 2025-01-01 UTC

	Python  string        // interpreter; "" = python3 on PATH
	Memory  int           // of the runner, MiB; 0 = 512
	Timeout time.Duration // of one call, by the wall clock; 0 = 10 s
}

// Class is one of several classes of an environment.
type Class struct {
	Name   string
	Source string   // its text, or
	File   string   // a Python file
	Tools  []string // that are its own; needed only where another class has a method of the same name
}

// Scenario is one task: an initial configuration and the check functions over
// the final state, as Python text that defines check_func(final_state).
type Scenario struct {
	ID     string
	Prompt string
	Config json.RawMessage
	Checks []string

	Solution []audit.Call // a reference solution, where one is known
}

func (s Spec) withDefaults() Spec {
	s.File = absolute(s.File)
	s.Classes = slices.Clone(s.Classes)
	for i := range s.Classes {
		s.Classes[i].File = absolute(s.Classes[i].File)
	}
	s.Version = cmp.Or(s.Version, "1")
	s.Memory = cmp.Or(s.Memory, 512)
	s.Timeout = cmp.Or(s.Timeout, 10*time.Second)
	if s.Clock.IsZero() {
		s.Clock = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if len(s.Config) == 0 {
		s.Config = json.RawMessage(`{}`)
	}
	return s
}

// absolute is a path as the runner needs it, which works elsewhere.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// classes are the classes, whichever way they were given.
func (s Spec) classes() []Class {
	if len(s.Classes) > 0 {
		return s.Classes
	}
	return []Class{{Name: s.Class, Source: s.Source, File: s.File}}
}

// reads reports whether the runner needs files of the user's disk.
func (s Spec) reads() bool {
	return slices.ContainsFunc(s.classes(), func(c Class) bool { return c.File != "" })
}

// label is the classes' names, for messages.
func (s Spec) label() string {
	var names []string
	for _, c := range s.classes() {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

func (s Spec) validate() error {
	fault := s.classFault()
	switch {
	case fault != "":
	case s.Name == "":
		fault = "needs a name"
	case len(s.Tools) == 0:
		fault = "declares no tools"
	case s.Kind != EnvScaler && s.Kind != BFCL && s.Kind != ACEBench && s.Kind != Tau2:
		fault = fmt.Sprintf("has the unknown kind %q", s.Kind)
	}
	if fault == "" {
		return nil
	}
	return &audit.Error{
		Code: audit.CodeInvalid, Message: fmt.Sprintf("Python class environment %q %s", s.Name, fault),
		Hint: "kinds are envscaler, bfcl, acebench and tau2; give class with source or file, or classes, and tools",
	}
}

// classFault says what is wrong with the classes; "" = nothing.
func (s Spec) classFault() string {
	if len(s.Classes) > 0 && (s.Class != "" || s.Source != "" || s.File != "") {
		return "has both a class and several classes"
	}
	seen := map[string]bool{}
	for _, c := range s.classes() {
		switch {
		case c.Name == "":
			return "needs a class"
		case (c.Source == "") == (c.File == ""):
			return "needs either the text or the file of class " + c.Name
		case seen[c.Name]:
			return fmt.Sprintf("has class %s twice", c.Name)
		}
		seen[c.Name] = true
		for _, tool := range c.Tools {
			if !slices.ContainsFunc(s.Tools, func(t audit.Tool) bool { return t.Name == tool }) {
				return fmt.Sprintf("gives class %s the tool %q, which is not declared", c.Name, tool)
			}
		}
	}
	return ""
}

// text is a class's text as it can be read here; ok is false where only the jail
// can read it.
func (c Class) text() (text []byte, ok bool) {
	if c.File == "" {
		return []byte(c.Source), true
	}
	text, err := os.ReadFile(c.File)
	return text, err == nil
}

// drawsFromSeed reports whether a class may depend on the session's seed: it draws
// from the shared generator or makes identifiers. A generator of its own, as
// BFCL's random.Random(number), does not. A file that only its own jail can read
// may do anything.
func (s Spec) drawsFromSeed() bool {
	shared := regexp.MustCompile(`(?:^|[^.\w])random\.(\w+)|from random import|\buuid`)
	return slices.ContainsFunc(s.classes(), func(c Class) bool {
		text, ok := c.text()
		return !ok || slices.ContainsFunc(shared.FindAllSubmatch(text, -1), func(m [][]byte) bool { return string(m[1]) != "Random" })
	})
}

// digest covers what makes the environment another one: what the classes say, not
// where they lie.
func (s Spec) digest() (audit.Digest, error) {
	declared, err := json.Marshal([]any{s.Tools, s.Tasks, len(s.Classes)})
	if err != nil {
		return audit.Digest{}, fmt.Errorf("encode tools of %s: %w", s.Name, err)
	}
	parts := [][]byte{[]byte(s.Kind), s.Config, declared, []byte(runnerSource)}
	for _, c := range s.classes() {
		text, ok := c.text()
		if !ok {
			text = []byte(c.File)
		}
		parts = append(parts, []byte(c.Name), text, []byte(strings.Join(c.Tools, " ")))
	}
	return adapter.DigestOf(parts...), nil
}
