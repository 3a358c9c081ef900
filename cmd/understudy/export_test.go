package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/ledger"
	"understudy/envace/train"
	"understudy/gpu"
)

// RecordGate keeps a verdict in m's ledger and announces it as a gate would.
func RecordGate(ctx context.Context, m *Main, status string) error {
	l, err := ledger.New(m.resources.pool, ledger.Config{})
	if err != nil {
		return err
	}
	const run, digest = "gated", "d"
	if _, err := l.CreateRun(ctx, audit.NewRun{Name: run}); err != nil && audit.ErrorCode(err) != audit.CodeConflict {
		return err
	}
	if err := l.SaveGate(ctx, audit.GateRecord{Run: run, Status: status, PolicyDigest: digest, Document: []byte("{}")}); err != nil {
		return err
	}
	announceRegression(ctx, m.Config, m.Logger, l, &gate.Verdict{
		Status: gate.Status(status), Policy: gate.PolicyText{Digest: digest}, Evidence: &gate.Evidence{Run: audit.RunFacts{ID: run}},
	})
	return nil
}

// DrainUntil has m drain for as long as the test says, in place of its delay.
func DrainUntil(m *Main, end <-chan time.Time) {
	m.after = func(time.Duration) <-chan time.Time { return end }
}

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

// Invoke runs one command line in this process, with no environment but env, and
// returns its exit status and what it wrote.
func Invoke(ctx context.Context, env map[string]string, stdin string, args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = execute(ctx, args, surroundings{
		env:   func(name string) (string, bool) { text, ok := env[name]; return text, ok },
		stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs,
	})
	return status, out.String(), errs.String()
}

// SettingsTable is README's configuration reference: a row a setting.
func SettingsTable() string {
	var b strings.Builder
	b.WriteString("\n| setting | default | what it is |\n|---|---|---|\n")
	c := Config{}
	for _, s := range settings(&c) {
		initial := s.initial
		if initial != "" {
			initial = "`" + initial + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", s.flag, initial, strings.ReplaceAll(s.help, "|", "\\|"))
	}
	return b.String() + "\n"
}

// DeviceMemory is what a device of this name can have, and how that is said.
func DeviceMemory(name string) (bytes int64, text string) {
	d := deviceFlags{device: name}
	return d.memory()
}

// RefusePlan is what a training meets that takes this of a card in bfloat16 with so much memory free.
func RefusePlan(free int64, sets ...train.Plan) error {
	return cardPlan{sets: sets, products: gpu.BF16}.refuse(free, "cuda")
}

// PlanTotal is the bytes of a parameter set's plan in bfloat16.
func PlanTotal(p train.Plan) (int64, error) {
	parts, err := cardPlan{sets: []train.Plan{p}, products: gpu.BF16}.parts()
	return parts.Total(), err
}

// ErrInterrupted is the cause of a context that a signal ended.
func ErrInterrupted() error { return errInterrupted }
