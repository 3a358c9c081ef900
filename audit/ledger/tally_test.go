package ledger_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/audit"
)

// TestTallyIsThatOfThePairs commits episodes of every kind, some of them twice,
// and reads back what a tally of the same pairs in memory says.
func TestTallyIsThatOfThePairs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := audit.NewTally()
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range 24 {
		e := newEpisode(uint64(i), 8)
		switch i % 4 {
		case 0:
			e.Success = new(true)
		case 1:
			e.Success = new(false)
		case 2:
			e.Mode = audit.Canary
		}
		pairs := auditEpisode(&e)
		for j := range pairs {
			vary(&pairs[j], rng)
			if e.Mode != audit.Canary {
				pairs[j].Action.Canary = nil
			}
			if i%8 == 0 {
				pairs[j].Executed = new(i%16 == 0)
			}
		}
		for range 1 + i%2 {
			if _, err := b.Commit(t.Context(), b.run, pairs); err != nil {
				t.Fatal(err)
			}
		}
		want.Add(pairs)
	}
	b.verify(t)
	got, err := b.Tally(t.Context(), b.run)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Cells(), got.Cells()); d != "" {
		t.Fatalf("cells differ (-want +got):\n%s", d)
	}
	seen := map[audit.Counter]bool{}
	for _, cell := range want.Cells() {
		if d := cmp.Diff(want.Groups(cell), got.Groups(cell), cmpopts.EquateApprox(0, 1e-9), callSquares()); d != "" {
			t.Errorf("%+v (-want +got):\n%s", cell, d)
		}
		for _, counters := range want.Groups(cell) {
			for _, name := range counters.Names() {
				family, _, _ := strings.Cut(string(name), "/")
				seen[audit.Counter(family)] = true
			}
		}
	}
	for _, name := range []audit.Counter{
		audit.CountHallucinated, audit.CountOmitted, audit.CountMaskedWeight, audit.CountApproximate, audit.CountOversize, audit.CountUnobservable,
		audit.CountForks, audit.CountRightByWrong, audit.CountBrier, audit.CountImagined, audit.CountRightByWrongTask,
		"canary_fsr", "confidence", "survival", "effect_f1", "masked", "cascaded",
	} {
		if !seen[name] {
			t.Errorf("no pair of this test sets %s: it proves nothing about it", name)
		}
	}
}

// callSquares leaves out the one sum that a ledger does not keep and no figure
// reads: the squares of calls.
func callSquares() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool {
		name, field := "", ""
		for _, step := range p {
			switch s := step.(type) {
			case cmp.MapIndex:
				name = s.Key().String()
			case cmp.StructField:
				field = s.Name()
			}
		}
		return field == "SumSq" && (name == string(audit.CountCalls) || strings.HasPrefix(name, "masked/"))
	}, cmp.Ignore())
}

// vary gives a pair something that figures count.
func vary(p *audit.Pair, rng *rand.Rand) {
	v := &p.Verdict
	p.Action.Inclusion = []float64{0, .5, .01, 1}[rng.IntN(4)]
	p.Repeats = rng.IntN(2)
	p.Action.Canary = &audit.CanaryLabel{Mutation: "unknown_id", Level: []audit.CanaryLevel{audit.SchemaLevel, audit.DomainLevel}[rng.IntN(2)]}
	if rng.IntN(2) == 0 {
		rehearsal := *p.Action.Rehearsal
		rehearsal.Confidence = new(rng.Float64())
		p.Action.Rehearsal = &rehearsal
	}
	switch rng.IntN(8) {
	case 0:
		*v = audit.Verdict{Masked: audit.MaskSandboxFault}
	case 1:
		v.Cascaded = true
	case 2:
		v.Cascaded, v.Severity = true, audit.S3
	case 3:
		v.Fork, v.Severity, v.FalseSuccess = true, audit.S5, true
		v.Real = audit.Outcome{Class: audit.Failed, Family: audit.NotFound}
	case 4:
		v.Flags = []string{audit.FlagApproximate, audit.FlagOversize}
		v.Scores.MaskedWeight = .25
	case 5:
		v.Scores.Hallucinated, v.Scores.Omitted = new(.5), new(.125)
	default:
		v.Scores.EffectPrecision, v.Scores.EffectRecall, v.Scores.EffectF1 = new(.5), new(1.0), new(2.0/3)
		v.Scores.RealCells = new(rng.IntN(9))
	}
}
