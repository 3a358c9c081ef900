package pyclass_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"understudy/audit"
	"understudy/sandbox/pyclass"
)

// only opens one environment.
type only struct{ env *pyclass.Environment }

func (o only) Environment(context.Context, string) (audit.Environment, error) { return o.env, nil }

// BenchmarkAudit audits whole episodes of two BFCL-style classes in one runner
// process, one episode after the other: 20 calls that read and write in turn, with
// the rehearsal that the sandbox itself would give. calls/s is what one runner
// process and one audit at a time reach together.
func BenchmarkAudit(b *testing.B) {
	env, s := open(b, station(b))
	auditor, err := audit.New(audit.Config{Opener: only{env}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = auditor.Close() })
	ep := stationEpisode(b, s)
	n := 0
	for b.Loop() {
		pairs, err := auditor.Episode(b.Context(), ep)
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

func stationEpisode(b *testing.B, s audit.Session) *audit.Episode {
	b.Helper()
	ep := &audit.Episode{ID: "e", PromptGroup: "g", Policy: "p", Environment: "station", Mode: audit.Forced}
	for i := range 20 {
		c := []audit.Call{
			{Tool: "balance", Arguments: json.RawMessage(`{"card":"c2"}`)},
			{Tool: "price", Arguments: json.RawMessage(`{"item":"water"}`)},
			{Tool: "enter", Arguments: fmt.Appendf(nil, `{"card":"c2","gate":"g%d"}`, i%3)},
			{Tool: "buy", Arguments: json.RawMessage(`{"item":"water"}`)},
		}[i%4]
		o := call(b, s, c.Tool, string(c.Arguments))
		ep.Actions = append(ep.Actions, audit.Action{Step: i, Message: i, Call: c, Rehearsal: &audit.Rehearsal{Raw: o.Raw}})
	}
	return ep
}
