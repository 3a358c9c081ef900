package ledger_test

import (
	"crypto/md5" //nolint:gosec // the order of groups, as the ledger has it; no secret
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
)

// groupOrder is where a prompt group stands in samples.
func groupOrder(group string) string {
	sum := md5.Sum([]byte(group)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

func TestSampleHoldsWholeGroupsInOneOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	all := map[audit.Digest]audit.Pair{}
	for i := range 60 { // 15 groups of 4 episodes
		e := newEpisode(uint64(i), 1+i%7)
		pairs := auditEpisode(&e)
		if _, err := b.Commit(t.Context(), b.run, pairs); err != nil {
			t.Fatal(err)
		}
		for _, p := range pairs {
			all[p.Key] = p
		}
	}
	for _, row := range []struct {
		episodes, results int
		whole             bool
		reason            string
	}{
		{1000, 100_000, true, "a small run is sampled whole"},
		{60, 100_000, true, "as many episodes as there are is still the whole run"},
		{25, 100_000, false, "more episodes than a page can bear"},
		{1000, 90, false, "more results than a page can bear"},
		{2, 100_000, false, "not even one group: it stays, cut"},
		{1, 1, false, "the smallest sample is one episode"},
	} {
		sample, err := b.SampleUpTo(t.Context(), b.run, row.episodes, row.results)
		if err != nil {
			t.Fatal(err)
		}
		if got := sample.Through == ""; got != row.whole {
			t.Errorf("%s: whole is %v (through %q)", row.reason, got, sample.Through)
		}
		got := map[audit.Digest]bool{}
		for _, c := range sample.Calls {
			p, known := all[c.Key]
			if !known || got[c.Key] || c.Tool != p.Action.Call.Tool || c.Severity != p.Verdict.Severity || c.PromptGroup != p.PromptGroup ||
				c.Step != p.Action.Step || c.GroupOrder != groupOrder(p.PromptGroup) || c.Before != p.Observation.Before || c.Arguments.IsZero() {
				t.Fatalf("%s: %+v is not a pair of the run, or not once", row.reason, c)
			}
			got[c.Key] = true
		}
		if len(got) == 0 || len(got) > row.results+7 {
			t.Errorf("%s: %d calls", row.reason, len(got))
		}
		for key, p := range all {
			want := row.whole || groupOrder(p.PromptGroup) < sample.Through && len(sample.Through) == 32
			if want && !got[key] {
				t.Errorf("%s: a call of %s is missing, which comes before %s", row.reason, p.PromptGroup, sample.Through)
			}
		}
		if !slices.IsSortedFunc(sample.Calls, func(x, y audit.AuditedCall) int { return strings.Compare(x.GroupOrder, y.GroupOrder) }) {
			t.Errorf("%s: groups are out of order", row.reason)
		}
	}
}

func TestSampleOfARunWithoutPairs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sample, err := b.SampleCalls(t.Context(), b.run)
	if err != nil || len(sample.Calls) != 0 || sample.Through != "" {
		t.Errorf("got %+v, %v; an empty run is a whole, empty sample", sample, err)
	}
	if _, err := b.SampleCalls(t.Context(), "no such run"); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("got %v, want not found", err)
	}
}

func TestTrainingMetricsComeBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	ids := map[int64]int32{}
	for _, seed := range []int64{1, 2} {
		id, err := b.StartTraining(ctx, audit.NewTraining{Experiment: "tiny", Arm: "envace", Seed: seed, Policy: "p"})
		if err != nil {
			t.Fatal(err)
		}
		ids[seed] = id
	}
	var metrics []audit.Metric
	for step := range int64(1000) {
		metrics = append(metrics, audit.Metric{Name: audit.MetricReward, Role: audit.ActRole, Step: step, Value: float64(step)},
			audit.Metric{Name: audit.MetricLength, Role: audit.RehearseRole, Step: step, Value: math.NaN()})
	}
	metrics = append(metrics, audit.Metric{Name: audit.MetricReward, Role: audit.ActRole, Step: 0, Value: -5})
	for range 2 { // a trainer that resumes writes its steps again
		if err := b.WriteMetrics(ctx, ids[1], metrics); err != nil {
			t.Fatal(err)
		}
	}
	again, err := b.StartTraining(ctx, audit.NewTraining{Experiment: "tiny", Arm: "envace", Seed: 1, Policy: "p"})
	if err != nil || again != ids[1] {
		t.Errorf("a resumed training got %d, %v; want its own id %d", again, err, ids[1])
	}
	series, err := b.Series(ctx, "tiny", audit.MetricReward, 100)
	if err != nil || len(series) != 1 || len(series[0].Points) != 100 || series[0].Role != audit.ActRole {
		t.Fatalf("got %d series, %v", len(series), err)
	}
	if p := series[0].Points[1]; p.Step != 10 || p.N != 10 || p.Value != 14.5 || p.Min != 10 || p.Max != 19 {
		t.Errorf("the second point is %+v: steps 10 to 19 average to 14.5", p)
	}
	if p := series[0].Points[0]; p.Min != -5 {
		t.Errorf("the first point is %+v: the last value written counts", p)
	}
	lengths, err := b.Series(ctx, "tiny", audit.MetricLength, 10)
	if err != nil || len(lengths) != 1 || lengths[0].Points[0].NotFinite != 100 {
		t.Errorf("got %+v, %v: values that are not finite are counted, not dropped", lengths, err)
	}
	names, err := b.MetricNames(ctx, "tiny")
	if err != nil || !slices.Equal(names, []string{audit.MetricLength, audit.MetricReward}) {
		t.Errorf("names: %v, %v", names, err)
	}
	if err := b.FinishTraining(ctx, ids[2], "diverged at step 3\x00"); err != nil {
		t.Fatal(err)
	}
	trainings, err := b.Trainings(ctx, "tiny")
	if err != nil || len(trainings) != 2 || trainings[0].Step != 999 || trainings[1].State != audit.TrainingFailed || trainings[1].Step != -1 {
		t.Errorf("trainings: %+v, %v", trainings, err)
	}
	if all, err := b.Experiments(ctx); err != nil || !slices.Equal(all, []string{"tiny"}) {
		t.Errorf("experiments: %v, %v", all, err)
	}
}

func TestBadMetricsAreRefusedWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	id, err := b.StartTraining(ctx, audit.NewTraining{Experiment: "e", Arm: "a"})
	if err != nil {
		t.Fatal(err)
	}
	good := audit.Metric{Name: "reward", Step: 1, Value: 1}
	for reason, bad := range map[string]audit.Metric{
		"a metric has a name": {Step: 1},
		"roles are a list":    {Name: "reward", Role: "judge"},
		"steps start at 0":    {Name: "reward", Step: -1},
		"names hold no NUL":   {Name: "a\x00"},
	} {
		if err := b.WriteMetrics(ctx, id, []audit.Metric{good, bad}); audit.ErrorCode(err) != audit.CodeInvalid {
			t.Errorf("%s: got %v", reason, err)
		}
	}
	if err := b.WriteMetrics(ctx, id+1, []audit.Metric{good}); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("a training that does not exist: got %v", err)
	}
	if n := b.number(t, `SELECT count(*) FROM training_metric`); n != 0 {
		t.Errorf("%d metrics were written beside a bad one", n)
	}
	if _, err := b.StartTraining(ctx, audit.NewTraining{Arm: "a"}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("an experiment has a name: got %v", err)
	}
}
