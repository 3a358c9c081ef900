package ledgertest_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
)

var postgres ledgertest.Server

func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }

// TestMultiplyIsThePipeline makes one run twice: by committing every pair, and by
// multiplying a few in SQL. The ledger's own recount accepts the second, and the
// figures of both are the same.
func TestMultiplyIsThePipeline(t *testing.T) {
	t.Parallel()
	pool := postgres.Pool(t)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	seed := ledgertest.Seed{Run: "multiplied", Pairs: 120, Wrong: .4}
	ledgertest.Fill(t, l, seed)
	ledgertest.Multiply(t, pool, seed.Run, 3)
	if err := l.Summarize(t.Context(), seed.Run); err != nil {
		t.Fatal(err)
	}
	report, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range report.Findings {
		t.Error(finding)
	}
	seed.Run, seed.Copies = "committed", 3
	ledgertest.Fill(t, l, seed)
	for _, split := range []audit.Split{audit.AllTasks, audit.Succeeded, audit.NotReached} {
		got, want := summary(t, l, "multiplied", split), summary(t, l, "committed", split)
		if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("figures of tasks %s (-committed +multiplied):\n%s", split, d)
		}
	}
}

func summary(t *testing.T, l *ledger.Ledger, run string, split audit.Split) []audit.Figures {
	t.Helper()
	s, err := l.Summary(t.Context(), run, audit.Slice{Split: split})
	if err != nil || s.Pooled == nil || s.Episodes == nil || !s.Current() {
		t.Fatalf("figures of %s: %+v, %v", run, s.Run, err)
	}
	return append(s.Tools, *s.Pooled, *s.Episodes)
}
