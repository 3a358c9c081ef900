package audit_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/diff"
)

// still answers every call from memory: what is left is the cost of the audit.
type still struct{ o audit.Observation }

func (s still) Info() audit.EnvironmentInfo {
	return audit.EnvironmentInfo{Name: "still", Version: "1", Deterministic: true}
}

func (s still) Tools(context.Context) ([]audit.Tool, error) {
	return []audit.Tool{{Name: "cancel_order", Effect: audit.Write, Echo: audit.EchoMap{"/status": "/orders/{order_id}/status"}}}, nil
}
func (s still) Open(context.Context, audit.Start) (audit.Session, error)       { return s, nil }
func (s still) Call(context.Context, audit.Call) (audit.Observation, error)    { return s.o, nil }
func (s still) Close() error                                                   { return nil }
func (s still) Environment(context.Context, string) (audit.Environment, error) { return s, nil }

// body is a typical answer of about 1 kB.
const body = `{"order_id":"#W5918442","user_id":"sofia_rossi_8776","status":"cancelled","cancel_reason":"no longer needed",` +
	`"address":{"address1":"291 River Road","address2":"Suite 271","city":"Houston","country":"USA","state":"TX","zip":"78784"},` +
	`"items":[{"name":"Electric Kettle","product_id":"1075968781","item_id":"7602931732","price":153.25,"options":{"capacity":"1L","material":"glass","color":"white"}},` +
	`{"name":"Bookshelf","product_id":"8600330539","item_id":"7154215719","price":505.62,"options":{"material":"wood","color":"brown","height":"6 ft"}},` +
	`{"name":"Garden Hose","product_id":"6679515468","item_id":"5753502325","price":96.35,"options":{"length":"25ft","material":"rubber","color":"green"}}],` +
	`"fulfillments":[],"payment_history":[{"transaction_type":"payment","amount":755.22,"payment_method_id":"credit_card_5051208"},` +
	`{"transaction_type":"refund","amount":755.22,"payment_method_id":"credit_card_5051208"}]}`

func stillEpisode(n int) (audit.Environment, *audit.Episode) {
	env := still{audit.Observation{
		Status: audit.StatusOK, Raw: []byte(body), Evidence: audit.EvidenceExact,
		Delta: diff.Patch{{Op: diff.OpReplace, Path: "/orders/#W5918442/status", Value: []byte(`"cancelled"`), Old: []byte(`"pending"`)}},
	}}
	ep := calls(audit.Forced)
	ep.Environment = "still"
	for i := range n {
		ep.Actions = append(ep.Actions, audit.Action{
			Step: i, Message: i, Rehearsal: answer(body),
			Call: call("cancel_order", `{"order_id":"#W5918442","reason":"no longer needed"}`),
		})
	}
	return env, ep
}

// BenchmarkAudit is one audit with the rehearsal brought along and a sandbox
// that costs nothing: aim at most 100 µs.
func BenchmarkAudit(b *testing.B) {
	const n = 10
	env, ep := stillEpisode(n)
	a := newAuditor(b, audit.Config{Opener: env.(audit.Opener)})
	b.ReportAllocs()
	audits, used := 0, processor(b)
	for b.Loop() {
		pairs, err := a.Episode(b.Context(), ep)
		if err != nil || pairs[0].Verdict.Severity != audit.S0 {
			b.Fatalf("%v %+v", err, pairs[0].Verdict)
		}
		audits += len(pairs)
	}
	report(b, audits, used)
}

// BenchmarkJudge is the verdict alone: both answers decoded, compared, graded.
func BenchmarkJudge(b *testing.B) {
	env, ep := stillEpisode(1)
	tools, err := env.Tools(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	o, err := env.(still).Call(b.Context(), ep.Actions[0].Call)
	if err != nil {
		b.Fatal(err)
	}
	rules := defaults(b)
	b.ReportAllocs()
	for b.Loop() {
		rules.Judge(&audit.Case{Tool: tools[0], Call: ep.Actions[0].Call, Rehearsal: ep.Actions[0].Rehearsal, Observation: &o})
	}
}

// BenchmarkKey is the identity of one pair.
func BenchmarkKey(b *testing.B) {
	id := audit.Identity{Mode: audit.Forced, Environment: "retail", Episode: "e1"}
	b.ReportAllocs()
	for b.Loop() {
		id.Key()
	}
}

// BenchmarkCounters is what a pair adds to the figures.
func BenchmarkCounters(b *testing.B) {
	_, ep := stillEpisode(1)
	env, _ := stillEpisode(1)
	pairs, err := newAuditor(b, audit.Config{Opener: env.(audit.Opener)}).Episode(b.Context(), ep)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		audit.PairCounters(&pairs[0])
	}
}

// BenchmarkShop is the audit with the real Starlark sandbox.
func BenchmarkShop(b *testing.B) {
	ep := spoiled(b, mix())
	a := newAuditor(b, audit.Config{})
	audits, used := 0, processor(b)
	for b.Loop() {
		pairs, err := a.Episode(b.Context(), ep)
		if err != nil {
			b.Fatal(err)
		}
		audits += len(pairs)
	}
	report(b, audits, used)
}

// processor is the CPU time that the process has used: what an audit costs,
// whoever else is busy on the machine.
func processor(tb testing.TB) time.Duration {
	tb.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func report(b *testing.B, audits int, before time.Duration) {
	b.Helper()
	used := processor(b) - before
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(audits)/1e3, "µs/audit")
	b.ReportMetric(float64(used.Nanoseconds())/float64(audits)/1e3, "cpu-µs/audit")
	b.ReportMetric(float64(audits)/b.Elapsed().Seconds(), "audits/s")
}
