package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/audit/stat"
)

// hostileText is what a model may write where a page shows it.
const hostileText = `"><script>document.title="owned"</script><img src=x onerror=alert(1)>` + "\u202e"

// newOperations is a world of two checkpoints in which everything has happened
// at least once.
func newOperations(t *testing.T) *world {
	t.Helper()
	pool := postgres.Pool(t)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const times = 10 // 1,200 pairs are judged and committed, the others multiplied
	for _, seed := range []ledgertest.Seed{
		{Run: "step-100", Checkpoint: 100, Pairs: baselinePairs / times, Wrong: .25}, {Run: "step-200", Checkpoint: 200, Pairs: seededPairs / times, Wrong: .45},
	} {
		ledgertest.Fill(t, l, seed)
		ledgertest.Multiply(t, pool, seed.Run, times)
		if err := l.Summarize(t.Context(), seed.Run); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.AddNoise(ctx, []ledger.Noise{{Environment: "shop", Version: "1", Tool: "get_order", Pattern: "/updated_at" + hostileText, Twins: 40, Disagreed: 38}, {Environment: "shop", Version: "1", Tool: "refund", Pattern: "/eta", Twins: 40, Disagreed: 3}}))
	must(l.AddDefect(ctx, ledger.Defect{Environment: "shop", Version: "1", Tool: "refund", Pattern: "/fee", Reason: "rounds the fee twice " + hostileText}))
	must(l.SaveEndpoint(ctx, audit.Endpoint{URL: "http://models.example/v1", Model: "policy-4b" + hostileText, Answers: [][3]string{{"chat", "yes", ""}, {"log-probabilities", "no", "confidence only where the policy states it"}}}))
	must(l.SaveVersionFigures(ctx, "step-200", "shop@1", staleFigures()))
	must(l.SaveContract(ctx, audit.Contract{
		Ref: "shop", Adapter: "mcp-stdio", Environment: audit.EnvironmentInfo{Name: "shop", Version: "1"}, Tools: 13, Checked: time.Now(),
		Findings: []audit.Clause{{Name: "sessions do not see each other", Verdict: audit.ClausePass}, {Name: "errors are errors", Verdict: audit.ClauseFail, Seen: hostileText}},
		Noise:    []audit.NoisePath{{Tool: "get_order", Pattern: "/at", Twins: 20, Disagree: 20, Masked: true}},
	}))
	fillTraining(t, l)
	fillSweep(t, l)
	fillJobs(t, l)
	decideTwice(t, l)
	_, err = pool.Exec(ctx, `INSERT INTO configuration (digest, version, effective) VALUES ($1, 'v1', '{"listen": "127.0.0.1:8080", "database_url": "postgres://auditor:xxxxx@db/ledger"}')`, make([]byte, 32))
	must(err)
	return serve(t, l)
}

func staleFigures() audit.VersionFigures {
	var clusters []stat.Cluster
	var lifetimes []stat.Lifetime
	for i := range 40 {
		stale := float64(i % 3)
		clusters = append(clusters, stat.Cluster{Group: fmt.Sprintf("g%02d", i), N: 4, Weight: 4, Sum: stale, SumSq: stale})
		lifetimes = append(lifetimes, stat.Lifetime{Time: float64(1 + i%5), Event: i%4 > 0})
	}
	survival := stat.KaplanMeier(lifetimes, .95)
	return audit.VersionFigures{Environment: "shop@2", Version: "2", Scored: 900, Changed: 160, Stale: stat.ClusteredWilson(clusters, .95), Detection: survival.Points, Calls: survival.RMST(10)}
}

// fillTraining writes three arms of two seeds, one of which diverges.
func fillTraining(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 3))
	for a, arm := range []string{"grpo-sandbox", "envace", "envace+calibration " + hostileText} {
		for seed := range int64(2) {
			id, err := l.StartTraining(t.Context(), audit.NewTraining{Experiment: "tiny", Arm: arm, Seed: seed, Policy: "seeded"})
			if err != nil {
				t.Fatal(err)
			}
			var metrics []audit.Metric
			for step := range int64(300) {
				x := float64(step) / 300
				add := func(name string, role audit.PolicyRole, value float64) {
					metrics = append(metrics, audit.Metric{Name: name, Role: role, Step: step, Value: value + .02*random.NormFloat64()})
				}
				add(audit.MetricReward, audit.ActRole, .3+.4*x*float64(1+a)/3)
				add(audit.MetricReward, audit.RehearseRole, .35+.3*x)
				add(audit.MetricFidelity, audit.RehearseRole, .6+.1*x*float64(a))
				add(audit.MetricLength, audit.ActRole, 120-30*x)
				add(audit.MetricLength, audit.RehearseRole, 200-60*x*float64(a))
			}
			if a == 1 && seed == 1 {
				metrics[len(metrics)-1].Value = math.NaN()
			}
			if err := l.WriteMetrics(t.Context(), id, metrics); err != nil {
				t.Fatal(err)
			}
			reason := ""
			if a == 1 && seed == 1 {
				reason = "loss is not finite at step 299 " + hostileText
			}
			if err := l.FinishTraining(t.Context(), id, reason); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fillSweep makes a run whose calls were rehearsed three times each.
func fillSweep(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	if _, err := l.CreateRun(t.Context(), audit.NewRun{Name: "thrice", Policy: "other"}); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(9, 9))
	refused := audit.Outcome{Class: audit.Failed, Family: audit.NotFound}
	for i := range 60 {
		var pairs []audit.Pair
		for sample := range 3 {
			p := audit.Pair{
				Key: audit.SecretHash(fmt.Sprint("thrice", i, sample)), Episode: fmt.Sprint("thrice-", i), PromptGroup: fmt.Sprint("g", i/4), Policy: "other",
				Environment: "shop", Version: "1", Mode: audit.Forced, Effect: audit.Read,
				Action:  audit.Action{Sample: sample, Call: audit.Call{Tool: "get_order", Arguments: []byte(`{}`)}, Rehearsal: &audit.Rehearsal{Raw: []byte(`{}`)}},
				Verdict: audit.Verdict{Real: audit.Outcome{Class: audit.OK}, Rehearsed: audit.Outcome{Class: audit.OK}},
			}
			if i%3 == 0 {
				p.Verdict.Real = refused
			}
			if random.Float64() < .2 || i%3 == 0 && random.Float64() < .6 {
				p.Verdict.Rehearsed = refused
			}
			pairs = append(pairs, p)
		}
		if _, err := l.Commit(t.Context(), "thrice", pairs); err != nil {
			t.Fatal(err)
		}
	}
}

// fillJobs leaves a run with queued jobs and with dead ones.
func fillJobs(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	if _, err := l.CreateRun(ctx, audit.NewRun{Name: "queued " + hostileText, Policy: "seeded", Checkpoint: 300}); err != nil {
		t.Fatal(err)
	}
	var episodes []audit.Episode
	for i := range 120 {
		episodes = append(episodes, audit.Episode{
			ID: fmt.Sprintf("rollout %d %s", i, hostileText), PromptGroup: "g", Policy: "seeded", Environment: "shop@1", Mode: audit.Forced,
			Actions: []audit.Action{{Call: audit.Call{Tool: "get_order", Arguments: []byte(`{}`)}, Rehearsal: &audit.Rehearsal{Raw: []byte("{}")}}},
		})
	}
	if _, err := l.Enqueue(ctx, "queued "+hostileText, episodes); err != nil {
		t.Fatal(err)
	}
	_, _, err := l.Relay(ctx, audit.ClaimLimit{Jobs: 1_000_000, Announcements: 1_000_000, Bytes: 1 << 40}, func(_ context.Context, messages []audit.Outgoing) error {
		for i := range messages {
			messages[i].Seq = uint64(i + 1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := l.Waiting(ctx, 0, nil, 60)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range waiting {
		burial := audit.Burial{Fault: audit.FaultPermanent, Reason: "the sandbox has no tool get_order " + hostileText, Delivery: 3}
		if err := l.Bury(ctx, audit.Job{Run: w.Run, ID: w.ID, Attempt: w.Attempt}, burial); err != nil {
			t.Fatal(err)
		}
	}
}

// decideTwice lets a gate pass one run and fail the next by the same policy.
func decideTwice(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	p, err := gate.Load(gate.Starting())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"step-100", "step-200"} {
		evidence, err := gate.Collect(t.Context(), l, p, run, "none")
		if err != nil {
			t.Fatal(err)
		}
		v := gate.Decide(p, evidence, gate.Options{Now: time.Now()})
		document, err := gate.ReportJSON(v)
		if err != nil {
			t.Fatal(err)
		}
		status := string(v.Status)
		if run == "step-100" {
			status = "PASS" // as an earlier version decided
		}
		if err := l.SaveGate(t.Context(), audit.GateRecord{Run: run, Status: status, PolicyDigest: v.Policy.Digest, Document: json.RawMessage(document)}); err != nil {
			t.Fatal(err)
		}
	}
}
