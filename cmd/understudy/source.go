package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"understudy/audit"
	"understudy/audit/diff"
)

// defaultFile is read where it exists and no other file was named.
const defaultFile = "understudy.yaml"

// loadConfig reads the settings: flag > environment > file > default. The error
// lists every fault of all of them at once.
func loadConfig(flags map[string]string, env func(string) (string, bool)) (Config, error) {
	path, named := flags["config"]
	if !named {
		path, named = env(envPrefix + "CONFIG")
	}
	if !named {
		path = defaultFile
	}
	file, err := readFile(path, named)
	if err != nil {
		return Config{}, err
	}
	cfg := Default()
	faults := file.faults
	for _, s := range settings(&cfg) {
		if text, ok := file.values[s.key]; ok {
			if err := s.set(text.value); err != nil {
				faults = append(faults, fmt.Errorf("%s:%d: %s: %w", path, text.line, s.key, err))
			}
		}
		if text, ok := env(s.env); ok {
			if err := s.set(text); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", s.env, err))
			}
		}
		if text, ok := flags[s.flag]; ok {
			if err := s.set(text); err != nil {
				faults = append(faults, fmt.Errorf("--%s: %w", s.flag, err))
			}
		}
	}
	if err := cfg.Validate(); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return Config{}, &audit.Error{Code: audit.CodeInvalid, Message: "configuration", Err: errors.Join(faults...), Hint: "understudy help config"}
	}
	if cfg.DataDir == "" {
		cfg.DataDir = defaultDataDir(env)
	}
	return cfg, nil
}

// yamlFile is a file of settings as it stands, before types are known.
type yamlFile struct {
	values map[string]yamlValue
	faults []error
}

type yamlValue struct {
	value string
	line  int
}

// maxSmall is far above any file that people write by hand, and above the largest
// report of a gate.
const maxSmall = 64 << 20

// readSmall reads a file that may come from elsewhere, or a pipe: a device without
// end is refused.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxSmall+1))
	if err == nil && len(text) > maxSmall {
		err = fmt.Errorf("%s is over %d MiB", path, maxSmall>>20)
	}
	return text, err
}

// readFile reads a YAML file of scalar settings. A missing file is a fault only
// when it was named.
func readFile(path string, named bool) (yamlFile, error) {
	file := yamlFile{values: map[string]yamlValue{}}
	text, err := readSmall(path)
	if errors.Is(err, os.ErrNotExist) && !named {
		return file, nil
	}
	if err != nil {
		return file, usageError("settings file: "+err.Error(), "name an existing file with --config")
	}
	return file, file.parse(path, text)
}

// parse reads the settings of a file's text; faults of single lines are kept.
func (f *yamlFile) parse(path string, text []byte) error {
	if err := diff.CheckYAML(text); err != nil {
		return usageError("settings file "+path+", "+err.Error(), "understudy help config has an example")
	}
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n") // the rest is a drawing of the place
		return usageError("settings file "+path+" is no YAML: "+line, "understudy help config has an example")
	}
	for _, doc := range parsed.Docs {
		if doc.Body != nil {
			f.read(path, doc.Body)
		}
	}
	return nil
}

func (f *yamlFile) read(path string, node ast.Node) {
	var entries []*ast.MappingValueNode
	switch body := node.(type) {
	case *ast.MappingNode:
		entries = body.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{body}
	case *ast.CommentGroupNode, *ast.NullNode:
		return
	default:
		f.faults = append(f.faults, fmt.Errorf("%s: want lines of key: value", path))
		return
	}
	cfg := Config{}
	known := map[string]bool{}
	var keys []string
	for _, s := range settings(&cfg) {
		known[s.key], keys = true, append(keys, s.key)
	}
	for _, entry := range entries {
		key, line := entry.Key.GetToken().Value, entry.Key.GetToken().Position.Line
		scalar, ok := entry.Value.(ast.ScalarNode)
		switch {
		case key == "environments" && isMapping(entry.Value): // they may be declared in this file, too
			f.values[key] = yamlValue{value: path, line: line}
		case !known[key]:
			f.faults = append(f.faults, fmt.Errorf("%s:%d: unknown key %s; %s", path, line, key, suggest(key, keys)))
		case !ok:
			f.faults = append(f.faults, fmt.Errorf("%s:%d: %s: want one value", path, line, key))
		default:
			f.values[key] = yamlValue{value: fmt.Sprint(scalar.GetValue()), line: line}
		}
	}
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}
