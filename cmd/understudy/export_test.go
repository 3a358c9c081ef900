package main

import (
	"io"
	"time"
)

// Execute is the program, for tests that run their own binary as understudy.
func Execute() { main() }

// LoadConfig reads settings from flags, an environment and a file.
func LoadConfig(flags, env map[string]string) (Config, error) {
	return loadConfig(flags, func(name string) (string, bool) {
		text, ok := env[name]
		return text, ok
	})
}

// Progress is a progress line on w with a clock of the test's.
func Progress(w io.Writer, terminal bool, total int, now func() time.Time) (add func(int), end func()) {
	inv := &invocation{surroundings: surroundings{stderr: w, terminal: terminal}}
	p := inv.newProgress("audits", total)
	p.now, p.started = now, now()
	return p.add, p.end
}

// Suggest is the hint for a misspelt word.
func Suggest(given string, known ...string) string { return suggest(given, known) }

// ParseFile reads a settings file's text: its values, and what is wrong with it.
func ParseFile(text []byte) (map[string]string, []error, error) {
	file := yamlFile{values: map[string]yamlValue{}}
	err := file.parse("understudy.yaml", text)
	values := map[string]string{}
	for key, v := range file.values {
		values[key] = v.value
	}
	return values, file.faults, err
}

// Redact is a secret as it is printed.
func Redact(text string) string { return secret(text).String() }
