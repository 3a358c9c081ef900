package pyclass

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"understudy/audit"
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

// Spec describes one class to mount.
type Spec struct {
	Name    string
	Version string
	Kind    Kind
	Class   string          // the class's name
	Source  string          // its text, or
	File    string          // a Python file on the user's disk, with
	Path    []string        // folders that it imports from
	Tools   []audit.Tool    // what may be called; nothing else ever is
	Config  json.RawMessage // initial configuration; Start.State overrides it
	Tasks   []Scenario      // tasks with check functions (EnvScaler)
	Clock   time.Time       // the world's now; zero = 2025-01-01 UTC

	Python  string        // interpreter; "" = python3 on PATH
	Memory  int           // of the runner, MiB; 0 = 512
	Timeout time.Duration // of one call, by the wall clock; 0 = 10 s
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
	if s.File != "" {
		if path, err := filepath.Abs(s.File); err == nil { // the runner works elsewhere
			s.File = path
		}
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

func (s Spec) validate() error {
	fault := ""
	switch {
	case s.Name == "" || s.Class == "":
		fault = "needs a name and a class"
	case (s.Source == "") == (s.File == ""):
		fault = "needs either the class's text or its file"
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
		Hint: "kinds are envscaler, bfcl, acebench and tau2; give class, source or file, and tools",
	}
}

// mentionsRandomness reports whether the class may depend on the seed. A file that
// only its own jail can read may, too.
func (s Spec) mentionsRandomness() bool {
	text := s.Source
	if s.File != "" {
		file, err := os.ReadFile(s.File)
		if err != nil {
			return true
		}
		text = string(file)
	}
	return strings.Contains(text, "random")
}
