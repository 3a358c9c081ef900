package starlark

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/goccy/go-yaml"

	"understudy/audit"
	"understudy/audit/diff"
)

// Manifest is a domain's domain.yaml.
type Manifest struct {
	Name        string            `yaml:"name"`
	Title       string            `yaml:"title"`
	Description string            `yaml:"description"`
	Versions    map[string]string `yaml:"versions"` // label → what changed
	Files       []string          `yaml:"files"`    // in scope order; default: state.star, domain.star, tasks.star
	// CompatFiles replaces Files under a compat mode.
	CompatFiles map[string][]string `yaml:"compat_files"`
	Tasks       int                 `yaml:"tasks"` // how many tasks the default list has; default 40
	// Python names the class whose TypeErrors compat mode tau2 quotes, by role.
	Python map[string]string `yaml:"python_class"`
	// StateSchema is a JSON Schema file that every committed state must satisfy.
	StateSchema string `yaml:"state_schema"`
}

// source is one file of a domain.
type source struct {
	name string // as error messages show it: retail/domain.star
	text []byte
}

func readManifest(fsys fs.FS, dir string) (Manifest, []byte, error) {
	var m Manifest
	name := path.Join(dir, "domain.yaml")
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return m, nil, &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("read domain %q", dir), Err: err,
			Hint: "a domain is a folder with domain.yaml, state.star, domain.star, tasks.star and policy.md",
		}
	}
	if err = diff.CheckYAML(text); err == nil {
		err = yaml.UnmarshalWithOptions(text, &m, yaml.Strict())
	}
	if err != nil {
		return m, nil, &audit.Error{Code: audit.CodeInvalid, Message: "read " + name, Err: err}
	}
	if m.Name == "" {
		m.Name = path.Base(dir)
	}
	if len(m.Versions) == 0 {
		m.Versions = map[string]string{"1": "the first"}
	}
	if m.Tasks == 0 {
		m.Tasks = 40
	}
	return m, text, nil
}

// readSources reads the domain's Starlark files in scope order.
func readSources(fsys fs.FS, dir string, m Manifest, compat string) ([]source, error) {
	files := m.Files
	if own := m.CompatFiles[compat]; len(own) > 0 {
		files = own
	}
	if len(files) == 0 {
		files = []string{"state.star", "domain.star", "tasks.star"}
	}
	var sources []source
	for _, file := range files {
		name := path.Join(dir, file)
		text, err := fs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) && len(m.Files) == 0 && file != "domain.star" {
			continue // a domain without a generator takes its state from Start.State
		}
		if err != nil {
			return nil, &audit.Error{Code: audit.CodeNotFound, Message: "read " + name, Err: err}
		}
		sources = append(sources, source{name: path.Join(m.Name, file), text: text})
	}
	return sources, nil
}

// readOptional reads a file of the domain that may be absent.
func readOptional(fsys fs.FS, name string) ([]byte, error) {
	text, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Labels lists the version labels in order: they are numbers, so 2 is before 10.
func (m Manifest) Labels() []string {
	return slices.SortedFunc(maps.Keys(m.Versions), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}
