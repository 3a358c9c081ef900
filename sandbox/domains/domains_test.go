package domains_test

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/sandbox"
	"understudy/sandbox/domains"
	"understudy/sandbox/proof"
)

// latest is the version that has every rule and tool; the others are tried less.
const latest = 3

// registry loads every domain once; environments are safe for concurrent use.
var registry = sandbox.New(domains.FS())

// each runs test for every version of every domain, in parallel.
func each(t *testing.T, test func(t *testing.T, env audit.Environment, version int)) {
	t.Helper()
	for _, name := range domains.Names() {
		for v := 1; v <= latest; v++ {
			if raceEnabled && v != latest {
				continue // the detector slows Starlark tenfold; the run without it tries every version
			}
			t.Run(name+"@"+strconv.Itoa(v), func(t *testing.T) {
				t.Parallel()
				env, err := registry.Environment(t.Context(), name+"@"+strconv.Itoa(v))
				if err != nil {
					t.Fatalf("load: %v (%s)", err, audit.ErrorHint(err))
				}
				test(t, env, v)
			})
		}
	}
}

// Tasks are solvable and not solved from the start, their checks notice a
// spoiled solution, and agents that do nothing or too much score 0.
func TestTasks(t *testing.T) {
	each(t, func(t *testing.T, env audit.Environment, version int) {
		t.Helper()
		cfg := proof.TaskConfig{}
		if version != latest {
			cfg.Values = 1
		}
		if raceEnabled {
			cfg.N = 10
		}
		report, err := proof.Tasks(t.Context(), env, cfg)
		if err != nil {
			t.Fatalf("prove the tasks: %v (%s)", err, audit.ErrorHint(err))
		}
		t.Logf("\n%s", text(report.Print))
		if len(report.Results) < 40 && !raceEnabled {
			t.Errorf("%d tasks, want at least 40", len(report.Results))
		}
		for _, fault := range report.Faults() {
			t.Error(fault)
		}
		if rate := report.KillRate(); rate < 0.97 {
			t.Errorf("kill rate %.3f, want at least 0.97; survivors:\n%s", rate, strings.Join(report.Survivors(), "\n"))
		}
	})
}

// Random calls that know the state keep the invariants, and reach every tool and
// the families that a business has.
func TestSoak(t *testing.T) {
	most := 20_000
	if s := os.Getenv("UNDERSTUDY_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("UNDERSTUDY_SOAK: %v", err)
		}
		most = n
	}
	each(t, func(t *testing.T, env audit.Environment, version int) {
		t.Helper()
		calls := most
		if raceEnabled || version != latest {
			calls /= 20
		}
		report, err := proof.Soak(t.Context(), env, proof.SoakConfig{Calls: calls, Seed: 1})
		if err != nil {
			t.Fatalf("soak: %v (%s)", err, audit.ErrorHint(err))
		}
		t.Logf("\n%s", text(report.Print))
		for _, f := range report.Findings {
			t.Errorf("session %d, call %d, %s %s: %s", f.Session, f.Number, f.Call.Tool, f.Call.Arguments, f.Text)
		}
		tools, err := env.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if calls < most {
			return // too few for the deepest states
		}
		for _, text := range report.Unreached(tools) {
			t.Error(text)
		}
		for _, family := range []audit.Family{audit.SchemaInvalid, audit.Authorization, audit.NotFound, audit.Conflict, audit.Precondition} {
			if !slices.Contains(report.Families(), family) {
				t.Errorf("no call was refused with %s", family)
			}
		}
	})
}

func text(write func(io.Writer)) string {
	var b strings.Builder
	write(&b)
	return b.String()
}
