package audit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/audit"
	"understudy/audit/diff"
)

func TestEffectCells(t *testing.T) {
	t.Parallel()
	value := func(text string) json.RawMessage { return json.RawMessage(text) }
	delta := diff.Patch{ // as a sandbox sees it: a record that is new, and its own clock
		{Op: diff.OpAdd, Path: "/orders/W1", Value: value(`{"status":"open","n":1.0}`)},
		{Op: diff.OpReplace, Path: "/$sys/clock", Value: value(`5`)},
		{Op: diff.OpRemove, Path: "/carts/c1"},
	}
	faithful := diff.Patch{
		{Op: diff.OpRemove, Path: "/carts/c1"},
		{Op: diff.OpReplace, Path: "/orders/W1/n", Value: value(`1`)},
		{Op: diff.OpReplace, Path: "/orders/W1/status", Value: value(`"open"`)},
	}
	for name, row := range map[string]struct {
		source  audit.EffectSource
		claimed diff.Patch
		want    []audit.EffectCell
	}{
		"faithful block": {audit.EffectByBlock, faithful, nil},
		"wrong, invented and forgotten": {
			audit.EffectByBlock,
			diff.Patch{faithful[0], {Op: diff.OpReplace, Path: "/orders/W1/n", Value: value(`2`)}, {Op: diff.OpReplace, Path: "/users/u1/paid", Value: value(`true`)}},
			[]audit.EffectCell{
				{Path: "/orders/W1/n", Kind: audit.WrongCell, Claimed: value(`2`), Made: value(`1.0`)},
				{Path: "/users/u1/paid", Kind: audit.PhantomCell, Claimed: value(`true`)},
				{Path: "/orders/W1/status", Kind: audit.SilentCell, Made: value(`"open"`)},
			},
		},
		"an echo shows a part": {audit.EffectByEcho, faithful[1:2], nil},
		"an error claims that nothing is": {audit.EffectByOutcome, diff.Patch{}, []audit.EffectCell{
			{Path: "/carts/c1", Kind: audit.SilentCell},
			{Path: "/orders/W1/n", Kind: audit.SilentCell, Made: value(`1.0`)},
			{Path: "/orders/W1/status", Kind: audit.SilentCell, Made: value(`"open"`)},
		}},
		"answers of probes are no cells": {audit.EffectByProbe, diff.Patch{{Op: diff.OpReplace, Path: "/1/status", Value: value(`"open"`)}}, nil},
		"nothing was compared":           {"", faithful[:1], nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := audit.Pair{
				Observation: &audit.Observation{Status: audit.StatusOK, Delta: delta},
				Verdict:     audit.Verdict{Claimed: row.claimed, Scores: audit.Scores{EffectSource: row.source}},
			}
			got := p.EffectCells()
			asText := cmp.Transformer("text", func(b []byte) string { return string(b) })
			if d := cmp.Diff(row.want, got, asText); d != "" {
				t.Error(d)
			}
		})
	}
}

// Two claims that fall on one real cell, under its real and its rehearsed name, always
// come to the same verdict.
func TestClaimsOnOneCellAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	rules := defaults(t)
	verdict := func() string {
		var ids diff.Bijection
		ids.Bind(`"W1"`, `"X1"`)
		v := rules.Judge(&audit.Case{
			Tool: audit.Tool{Name: "t", Effect: audit.Write}, Call: call("t", `{"id":"X1"}`), IDs: &ids,
			Rehearsal: &audit.Rehearsal{Raw: []byte(`{"ok":true}`), StateDelta: json.RawMessage(
				`[{"op":"replace","path":"/orders/W1/status","old":"a","value":"sold"},{"op":"replace","path":"/orders/X1/status","old":"a","value":"gone"}]`)},
			Observation: &audit.Observation{
				Status: audit.StatusOK, Raw: []byte(`{"ok":true}`), Evidence: audit.EvidenceExact,
				Delta: diff.Patch{{Op: diff.OpReplace, Path: "/orders/W1/status", Value: []byte(`"gone"`), Old: []byte(`"a"`)}},
			},
		})
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := verdict()
	if !strings.Contains(first, `"effect_f1":1`) {
		t.Errorf("%s: want the last claim, of X1, to be the cell's", first)
	}
	for range 100 {
		if again := verdict(); again != first {
			t.Fatalf("got %s\nand before %s", again, first)
		}
	}
}
