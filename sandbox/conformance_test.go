package sandbox_test

import (
	"context"
	"os"
	"testing"

	"understudy/audit"
	"understudy/sandbox"
	"understudy/sandbox/domains"
	"understudy/sandbox/sandboxtest"
	"understudy/sandbox/starlark"
)

func TestMain(m *testing.M) {
	starlark.ChildMain()
	os.Exit(m.Run())
}

// TestConformance runs the suite on the built-in domains, in process and in a child.
func TestConformance(t *testing.T) {
	shipped, foreign := sandbox.New(domains.FS()), sandbox.NewForeign(domains.FS())
	t.Cleanup(func() { _, _ = shipped.Close(), foreign.Close() })
	names, err := shipped.Names()
	if err != nil || len(names) == 0 {
		t.Fatalf("domains: %v, %v", names, err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { sandboxtest.Test(t, environment(t, shipped, name)) })
	}
	t.Run("child", func(t *testing.T) { sandboxtest.Test(t, environment(t, foreign, "retail-mini")) })
}

func environment(t *testing.T, o audit.Opener, ref string) audit.Environment {
	t.Helper()
	env, err := o.Environment(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// liar breaks the contract on purpose: its sessions all live on one state.
type liar struct{ audit.Environment }

func (l liar) Tasks(ctx context.Context, seed uint64, n int) ([]audit.Task, error) {
	return l.Environment.(audit.Tasker).Tasks(ctx, seed, n)
}

func (l liar) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	start.Shared, start.Seed = "all", 0
	return l.Environment.Open(ctx, start)
}

// TestContractNotices proves that the contract test can fail.
func TestContractNotices(t *testing.T) {
	registry := sandbox.New(domains.FS())
	report, err := sandbox.Contract(t.Context(), liar{environment(t, registry, "retail-mini")})
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]bool{}
	for _, f := range report.Findings {
		failed[f.Name] = f.Verdict == sandbox.Fail
	}
	for _, name := range []string{"different seed, different world", "sessions are isolated"} {
		if !failed[name] {
			t.Errorf("clause %q did not notice that all sessions share one state:\n%s", name, report.Table())
		}
	}
	if report.OK() {
		t.Error("the report passes an environment that lies")
	}
}

func TestUnknownEnvironment(t *testing.T) {
	registry := sandbox.New(domains.FS())
	tests := []struct {
		ref    string
		code   audit.Code
		reason string
	}{
		{"retial", audit.CodeNotFound, "a typing error: the hint lists the names"},
		{"retail@9", audit.CodeNotFound, "a version that does not exist"},
		{"retail@x", audit.CodeInvalid, "a version is a number"},
		{"retail@1+tau9", audit.CodeNotFound, "a compat mode that does not exist"},
	}
	for _, tt := range tests {
		if _, err := registry.Environment(t.Context(), tt.ref); audit.ErrorCode(err) != tt.code || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got %v (hint %q), want %s with a hint: %s", tt.ref, err, audit.ErrorHint(err), tt.code, tt.reason)
		}
	}
}
