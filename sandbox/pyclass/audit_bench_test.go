package pyclass_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"understudy/audit"
	"understudy/sandbox/pyclass"
)

// either opens one of several environments.
type either map[string]*pyclass.Environment

func (e either) Environment(_ context.Context, ref string) (audit.Environment, error) {
	return e[ref], nil
}

// BenchmarkAudit audits whole episodes of two BFCL-style classes, one runner
// process each, one episode after the other: 20 calls that read and write, with
// the rehearsal that the sandbox itself would give. calls/s is what one runner
// process and one audit at a time reach together.
func BenchmarkAudit(b *testing.B) {
	envs := either{}
	for _, name := range []string{"north", "south"} {
		spec := bfcl(b)
		spec.Name = name
		envs[name], _ = open(b, spec)
	}
	auditor, err := audit.New(audit.Config{Opener: envs})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = auditor.Close() })
	episodes := []*audit.Episode{turnstileEpisode(b, "north", envs), turnstileEpisode(b, "south", envs)}
	n := 0
	for b.Loop() {
		pairs, err := auditor.Episode(b.Context(), episodes[n/20%2])
		if err != nil {
			b.Fatal(err)
		}
		for i := range pairs {
			if v := &pairs[i].Verdict; v.Severity != audit.S0 || !v.Scored() {
				b.Fatalf("call %d: %s, masked %q", i, v.Severity, v.Masked)
			}
		}
		n += len(pairs)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "calls/s")
}

func turnstileEpisode(b *testing.B, name string, envs either) *audit.Episode {
	b.Helper()
	ep := &audit.Episode{ID: name, PromptGroup: "g", Policy: "p", Environment: name, Mode: audit.Forced}
	s := session(b, envs[name], audit.Start{})
	for i := range 20 {
		c := audit.Call{Tool: "balance", Arguments: json.RawMessage(`{"card":"c2"}`)}
		if i%2 == 1 {
			c = audit.Call{Tool: "enter", Arguments: fmt.Appendf(nil, `{"card":"c2","gate":"g%d"}`, i%4)}
		}
		o := call(b, s, c.Tool, string(c.Arguments))
		ep.Actions = append(ep.Actions, audit.Action{Step: i, Message: i, Call: c, Rehearsal: &audit.Rehearsal{Raw: o.Raw}})
	}
	return ep
}
