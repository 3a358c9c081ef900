package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/audit"
)

func TestContracts(t *testing.T) {
	b := setup(t)
	contract := func(ref, verdict string) audit.Contract {
		return audit.Contract{
			Ref: ref, Adapter: "mcp-stdio", Tools: 3, Jail: "WEAKER THAN ASKED: \x00", Notes: []string{"speaks MCP"},
			Environment: audit.EnvironmentInfo{Name: ref, Version: "1", Digest: audit.Digest{7}, Capabilities: []audit.Capability{audit.CanProbe}},
			Findings:    []audit.Clause{{Name: "sessions are isolated", Verdict: verdict, Seen: "tried"}},
			Noise:       []audit.NoisePath{{Tool: "get", Pattern: "/at", Twins: 3, Disagree: 3}},
		}
	}
	for _, c := range []audit.Contract{contract("shop", audit.ClauseFail), contract("desk", audit.ClausePass), contract("shop", audit.ClausePass)} {
		if err := b.SaveContract(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.Contracts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []audit.Contract{contract("desk", audit.ClausePass), contract("shop", audit.ClausePass)}
	if d := cmp.Diff(want, all, cmpopts.IgnoreFields(audit.Contract{}, "Checked")); d != "" {
		t.Errorf("the last contract of each environment, by name: %s", d)
	}
	last, err := b.Contract(t.Context(), "shop")
	if err != nil || !last.OK() || last.Checked.IsZero() {
		t.Errorf("the last contract of one: %+v, %v", last, err)
	}
	if _, err := b.Contract(t.Context(), "none"); audit.ErrorCode(err) != audit.CodeNotFound || audit.ErrorHint(err) == "" {
		t.Errorf("an environment that was never tested: %v", err)
	}
}
