package audit_test

import (
	"maps"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/audit"
)

func TestFigureValues(t *testing.T) {
	half, zero, two := .5, 0, 2
	ok, refused := audit.Outcome{Class: audit.OK}, audit.Outcome{Class: audit.Failed, Family: audit.Precondition}
	for _, row := range []struct {
		name   string
		pair   audit.Pair
		want   map[audit.Figure]float64
		reason string
	}{
		{
			"false success",
			audit.Pair{Verdict: audit.Verdict{Real: refused, Rehearsed: ok, Severity: audit.S5, Scores: audit.Scores{Valid: true}}},
			map[audit.Figure]float64{"validity": 1, "outcome": 0, "material": 1, "fsr": 1, "phantom_success": 1},
			"counts against both of its rates and in no rate of real successes",
		},
		{
			"same refusal",
			audit.Pair{Verdict: audit.Verdict{Real: refused, Rehearsed: refused, Scores: audit.Scores{Valid: true}}},
			map[audit.Figure]float64{"validity": 1, "outcome": 1, "material": 0, "fsr": 0, "error_family": 1},
			"an agreed error is no success, phantom or otherwise",
		},
		{
			"false error",
			audit.Pair{Verdict: audit.Verdict{Real: ok, Rehearsed: refused, Severity: audit.S4, Scores: audit.Scores{Valid: true}}},
			map[audit.Figure]float64{"validity": 1, "outcome": 0, "material": 1, "false_error": 1},
			"the family of an error that did not happen is not compared",
		},
		{
			"silent write",
			audit.Pair{Verdict: audit.Verdict{
				Real: ok, Rehearsed: ok, Severity: audit.S3,
				Scores: audit.Scores{Valid: true, LeafF1: &half, RealCells: &two, RehearsedCells: &zero, SilentWrite: true},
			}},
			map[audit.Figure]float64{"validity": 1, "outcome": 1, "material": 1, "false_error": 0, "phantom_success": 0, "leaf_f1": .5, "silent_write": 1},
			"nothing was claimed, so nothing can be phantom",
		},
		{
			"masked",
			audit.Pair{Verdict: audit.Verdict{Masked: audit.MaskSandboxFault, Real: refused, Rehearsed: ok}},
			map[audit.Figure]float64{},
			"masked is never a number",
		},
		{
			"cascaded",
			audit.Pair{Verdict: audit.Verdict{Cascaded: true, Real: refused, Rehearsed: ok}},
			map[audit.Figure]float64{},
			"its history had already forked",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, maps.Collect(audit.FigureValues(row.pair))); diff != "" {
				t.Errorf("figures of %s (-want +got):\n%s\n%s", row.name, diff, row.reason)
			}
		})
	}
}

func TestInclusionWeight(t *testing.T) {
	for _, row := range []struct {
		inclusion, want float64
		reason          string
	}{
		{0, 1, "not logged means always audited"},
		{1, 1, "always audited"},
		{.5, 2, "one of two"},
		{.001, audit.MaxInclusionWeight, "capped"},
		{math.NaN(), 1, "nothing non-finite gets in"},
		{math.Inf(1), 1, "nothing non-finite gets in"},
		{-1, 1, "impossible"},
	} {
		if got := audit.InclusionWeight(row.inclusion); got != row.want {
			t.Errorf("InclusionWeight(%v) = %v, want %v: %s", row.inclusion, got, row.want, row.reason)
		}
	}
}

func TestFingerprintIsInjective(t *testing.T) {
	if audit.Fingerprint("ab", "c", "d") == audit.Fingerprint("a", "bc", "d") {
		t.Error("parts that concatenate alike share a fingerprint")
	}
	if got := len(audit.Fingerprint("", "", "")); got != 32 {
		t.Errorf("fingerprint has %d digits, want 32", got)
	}
}
