package audit_test

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/audit"
)

// sampleEpisodes is the mix under a rehearser that is wrong now and then.
func sampleEpisodes(t *testing.T, n int) [][]audit.Pair {
	t.Helper()
	env := shop(t, 1)
	a := newAuditor(t, audit.Config{Opener: opener{"shop": env}})
	out := make([][]audit.Pair, n)
	for i := range out {
		ep := mix()
		ep.ID, ep.PromptGroup, ep.Mode = "e"+strconv.Itoa(i), "g"+strconv.Itoa(i/4), audit.Open
		ep.Start.Task, ep.Success = "t0", new(i%3 != 0)
		d := audit.NewDemoRehearser(env, ep.Start, uint64(i),
			audit.Share{Perturbation: audit.Faithful, Weight: 12}, audit.Share{Perturbation: audit.WrongField, Weight: 1},
			audit.Share{Perturbation: audit.AlwaysOK, Weight: 1}, audit.Share{Perturbation: audit.AlwaysError, Weight: 1},
			audit.Share{Perturbation: audit.SilentClaim, Weight: 1}, audit.Share{Perturbation: audit.WrongFamily, Weight: 1})
		if err := d.Fill(t.Context(), ep); err != nil {
			t.Fatal(err)
		}
		out[i] = episode(t, a, ep)
	}
	return out
}

func TestTalliesMerge(t *testing.T) {
	t.Parallel()
	whole, left, right := audit.NewTally(), audit.NewTally(), audit.NewTally()
	for i, pairs := range sampleEpisodes(t, 12) {
		whole.Add(pairs)
		if i%2 == 0 {
			left.Add(pairs)
		} else {
			right.Add(pairs)
		}
	}
	left.Merge(right)
	if d := cmp.Diff(whole.Figures(1), left.Figures(1), cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Errorf("the merged tally has other figures:\n%s", d)
	}
}

// Every figure is recomputed here from the pairs, in the plainest way.
func TestFiguresAreWhatTheirNamesSay(t *testing.T) {
	t.Parallel()
	tally := audit.NewTally()
	var pairs []audit.Pair
	for _, ep := range sampleEpisodes(t, 24) {
		tally.Add(ep)
		pairs = append(pairs, ep...)
	}
	const tool = "cancel_order"
	f := tally.FiguresOf(audit.Cell{Environment: "shop", Version: pairs[0].Version, Tool: tool, Mode: audit.Open, Split: audit.AllTasks}, 1)
	share := func(count, of func(audit.Verdict) bool) float64 {
		n, d := 0, 0
		for _, p := range pairs {
			if p.Action.Call.Tool != tool || !p.Verdict.Scored() || p.Verdict.Cascaded || !of(p.Verdict) {
				continue
			}
			d++
			if count(p.Verdict) {
				n++
			}
		}
		return float64(n) / float64(d)
	}
	realError := func(v audit.Verdict) bool { return v.Real.IsError() }
	saysOK := func(v audit.Verdict) bool { return !v.Rehearsed.IsError() }
	for name, want := range map[string]float64{
		"fsr":             share(saysOK, realError),
		"phantom_success": share(realError, saysOK),
		"false_error":     share(func(v audit.Verdict) bool { return !saysOK(v) }, func(v audit.Verdict) bool { return !realError(v) }),
		"outcome":         share(func(v audit.Verdict) bool { return v.Real == v.Rehearsed }, func(audit.Verdict) bool { return true }),
		"silent_write": share(func(v audit.Verdict) bool { return v.Scores.SilentWrite }, func(v audit.Verdict) bool {
			return v.Scores.RealCells != nil && *v.Scores.RealCells > 0 && v.Scores.RehearsedCells != nil
		}),
	} {
		e := f.Value(name)
		if math.Abs(e.Value-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", name, e.Value, want)
		}
		if want > 0 && (e.Lo >= e.Value || want < 1 && e.Hi <= e.Value || e.N == 0 || e.Clusters == 0 || e.Method == "") {
			t.Errorf("%s: %v lacks its interval, n or formula", name, e)
		}
	}
	ladder := 0
	for _, n := range f.Ladder {
		ladder += n
	}
	if ladder != f.Scored || f.Scored+f.Cascaded+f.Masked[audit.MaskNotSampled] != f.Pairs {
		t.Errorf("ladder %d, scored %d, cascaded %d, pairs %d do not add up", ladder, f.Scored, f.Cascaded, f.Pairs)
	}
	for _, name := range []string{"mcc", "balanced_accuracy", "error_family_f1", "leaf_f1", "effect_f1", "effect_f1/1-2", "brier", "confidence_auc", "phi", "right_by_wrong"} {
		if !f.Value(name).Defined() {
			t.Errorf("%s is not defined: %v", name, f.Value(name))
		}
	}
}

func TestEpisodeFiguresAndSplits(t *testing.T) {
	t.Parallel()
	tally := audit.NewTally()
	episodes := sampleEpisodes(t, 24)
	imagined, executed, died := 0, 0, 0
	for _, ep := range episodes {
		tally.Add(ep)
		imagined += boolInt(*ep[0].Success)
		executed += boolInt(*ep[0].Executed)
		died += boolInt(slices.ContainsFunc(ep, func(p audit.Pair) bool { return p.Verdict.Fork }))
	}
	cell := audit.Cell{Environment: "shop", Version: episodes[0][0].Version, Mode: audit.Open, Split: audit.AllTasks}
	f := tally.FiguresOf(cell, 1)
	n := float64(len(episodes))
	if got, want := f.Value("imagination_gap").Value, (float64(imagined)-float64(executed))/n; math.Abs(got-want) > 1e-9 {
		t.Errorf("imagination gap %v, want %v", got, want)
	}
	groups := map[string]bool{}
	for _, ep := range episodes {
		groups[ep[0].PromptGroup] = true
	}
	for _, name := range []string{"survival_5", "survival_mean_10"} {
		if e := f.Value(name); e.Clusters != len(groups) || e.N != len(episodes) {
			t.Errorf("%s is of %d episodes in %d groups, want %d in %d", name, e.N, e.Clusters, len(episodes), len(groups))
		}
	}
	events := 0
	for _, p := range f.Survival {
		events += p.Events
	}
	if events != died {
		t.Errorf("%d events on the survival curve, %d episodes forked", events, died)
	}
	all, parts := 0, 0
	for _, c := range tally.Figures(1) {
		if c.Split == audit.AllTasks {
			all += c.Pairs
		} else {
			parts += c.Pairs
		}
	}
	if all != parts || all == 0 {
		t.Errorf("%d pairs in all, %d in the splits", all, parts)
	}
	if text, err := json.Marshal(tally.Figures(1)); err != nil || !json.Valid(text) {
		t.Errorf("figures as JSON: %v", err)
	}
}

func TestMaskedPairsAreCountedAndNeverAveraged(t *testing.T) {
	t.Parallel()
	tally := audit.NewTally()
	pair := scored("t", ok(), ok(), 1)
	pair.Verdict.Scores.LeafF1 = new(1.0)
	masked, skipped := pair, pair
	masked.Verdict.Masked, masked.Repeats = audit.MaskSandboxFault, 2
	skipped.Verdict.Masked = audit.MaskNotSampled
	tally.Add([]audit.Pair{pair, masked, skipped})
	f := tally.FiguresOf(audit.Cell{Tool: "t", Mode: audit.Open, Split: audit.AllTasks}, 1)
	if f.Scored != 1 || f.Calls != 5 || f.Masked[audit.MaskSandboxFault] != 3 || f.MaskedShare() != .75 {
		t.Errorf("%+v share %v, want one scored of four drawn calls", f.Masked, f.MaskedShare())
	}
	if e := f.Value("leaf_f1"); e.N != 1 {
		t.Errorf("leaf F1 over %d pairs, want the scored one", e.N)
	}
}
