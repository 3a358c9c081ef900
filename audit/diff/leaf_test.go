package diff_test

import (
	"strings"
	"testing"

	"understudy/audit/diff"
)

// TestRules compares {"a": real} with {"a": rehearsed} under one rule of /a.
func TestRules(t *testing.T) {
	t.Parallel()
	tests := []struct{ rule, real, rehearsed, want, reason string }{
		{"exact", `"Ünal"`, `"U\u0308nal"`, "cosmetic", "one text, composed in two ways"},
		{"exact", `"a"`, `"A"`, "changed", "letter case counts"},
		{"{fold: true}", `" open"`, `"OPEN"`, "cosmetic", "unless the policy folds it"},
		{"enum", `true`, `"true"`, "type_changed", "enums are strict in type"},
		{"{coerce: true}", `25`, `"25.0"`, "cosmetic", "a number in a string, if the policy says so"},
		{"{coerce: true}", `true`, `"True"`, "cosmetic", "a bool in a string"},
		{"{coerce: true}", `25`, `"26"`, "type_changed", "but another number"},
		{"{rule: number, abs: 0.01}", `1.00`, `1.01`, "equal", "the tolerance is inclusive, in decimals"},
		{"{rule: number, abs: 0.01}", `1.00`, `1.0100000000000000001`, "changed", "and exact"},
		{"{rule: number, rel: 0.1}", `100`, `90`, "equal", "relative to the larger magnitude, inclusive"},
		{"{rule: number, rel: 0.1}", `100`, `89.999`, "changed", "just beyond"},
		{"{rule: number, rel: 0.1}", `-1e399`, `-0.95e399`, "equal", "beyond the range of floats"},
		{"{rule: number, rel: 0.1}", `1e-300`, `-1e-300`, "changed", "signs differ"},
		{"{rule: number, abs: 1e-300}", `9007199254740993`, `9007199254740992`, "changed", "no float in between"},
		{"{rule: number, abs: 1}", `null`, `0`, "type_changed", "null is no number"},
		{"number", `1.10`, `1.1`, "equal", "without a tolerance, equal decimals"},
		{"timestamp", `"2024-05-15T15:00:00Z"`, `"2024-05-15T17:00:00+02:00"`, "equal", "one instant in two zones"},
		{"timestamp", `"2024-05-15T15:00:00Z"`, `"Wed, 15 May 2024 15:00:00 UTC"`, "cosmetic", "one instant in another form"},
		{"timestamp", `"2024-05-15T15:00:00Z"`, `"2024-05-15T15:00:00"`, "changed", "a local time is no instant"},
		{"timestamp", `"2024-05-15T15:00:00Z"`, `"2024-05-15T15:00:01Z"`, "changed", "no tolerance"},
		{"{rule: timestamp, tolerance: 2s}", `"2024-05-15 15:00:00"`, `"2024-05-15 15:00:02"`, "equal", "within the tolerance"},
		{"{rule: timestamp, tolerance: 2s}", `1715785200`, `1715785202`, "equal", "seconds since 1970"},
		{"{rule: timestamp, tolerance: 2s}", `1715785200000`, `1715785203000`, "changed", "milliseconds"},
		{"timestamp", `20000000000`, `50000000000`, "changed", "the years 2603 and 3554"},
		{"timestamp", `"soon"`, `"later"`, "changed", "no timestamps at all"},
		{"text", `"Order #12 was cancelled."`, `"order #12 was cancelled"`, "equal", "the same words and numbers"},
		{"text", `"Order 12 was cancelled"`, `"Order 13 was cancelled"`, "changed", "another number"},
		{"text", `"The order can be cancelled"`, `"The order cannot be cancelled"`, "changed", "the opposite"},
		{"text", `"You don't have a booking"`, `"You do have a booking"`, "changed", "a negation within a word"},
		{"text", `"1,000.50 dollars refunded"`, `"refunded 1000.5 dollars"`, "equal", "one number in two spellings"},
		{"text", `"completely different words here"`, `"nothing in common at all"`, "changed", "too few words in common"},
		{"text", `"żółw"`, `"ŻÓŁW"`, "equal", "letters beyond ASCII"},
		{"volatile", `"x"`, `"y"`, "equal", "the value is not compared"},
		{"volatile", `"x"`, `1`, "type_changed", "the type is"},
		{"volatile", `"x"`, `null`, "type_changed", "and null is a type"},
		{"volatile", `{"b":1}`, `{"c":[2]}`, "equal", "below it nothing is compared"},
		{"{equate: [null, empty]}", `null`, `""`, "cosmetic", "equated"},
		{"{equate: [null, empty]}", `null`, `0`, "type_changed", "zero is not empty"},
		{"{equate: [[null, empty], [null, zero]]}", `0.0`, `null`, "cosmetic", "a list of pairs"},
		{"{equate: [null, empty]}", `[]`, `""`, "type_changed", "two empties of two types are not equated by that"},
		{"{presence: optional}", `1`, `2`, "changed", "an optional value still counts where both have it"},
	}
	for _, tt := range tests {
		c := diff.Compare(rules(t, "    /a: "+tt.rule),
			decode(t, `{"a":`+tt.real+`}`), decode(t, `{"a":`+tt.rehearsed+`}`), nil)
		got := "equal"
		switch {
		case len(c.Differences) > 1:
			got = c.Explain()
		case len(c.Differences) == 1 && c.Differences[0].Cosmetic:
			got = "cosmetic"
		case len(c.Differences) == 1:
			got = string(c.Differences[0].Kind)
		}
		if got != tt.want {
			t.Errorf("%s: %s, %s: got %s, want %s: %s", tt.rule, tt.real, tt.rehearsed, got, tt.want, tt.reason)
		}
		// What is volatile weighs nothing: it shows in the shape.
		score := min(c.F1, c.Shape)
		if right := got == "equal" || got == "cosmetic"; right != (score == 1) {
			t.Errorf("%s: %s, %s: %s with a score of %g", tt.rule, tt.real, tt.rehearsed, got, score)
		}
	}
}

// TestPresence: what one side lacks counts with all its leaves.
func TestPresence(t *testing.T) {
	t.Parallel()
	tests := []struct {
		paths, real, rehearsed string
		precision, recall      float64
		reason                 string
	}{
		{"", `{"a":1,"b":{"c":1,"d":1,"e":1}}`, `{"a":1}`, 1, 0.25, "three leaves are missing, nothing is invented"},
		{"", `{"a":1}`, `{"a":1,"b":{"c":1,"d":1,"e":1}}`, 0.25, 1, "three leaves are invented, nothing is missing"},
		{"", `{"l":[{"a":1,"b":1}]}`, `{"l":[{"a":1}]}`, 1, 0.5, "the same within a list"},
		{"/b: {weight: 0}", `{"a":1,"b":1}`, `{"a":1}`, 1, 1, "a weight of zero costs nothing"},
		{"/b: {presence: optional}", `{"a":1,"b":1}`, `{"a":1}`, 1, 1, "nor does what may be absent"},
		{"/b: key", `{"a":1,"b":1}`, `{"a":1}`, 1, 0.4, "a key weighs 3, another leaf 2"},
	}
	for _, tt := range tests {
		c := diff.Compare(rules(t, indent(tt.paths)), decode(t, tt.real), decode(t, tt.rehearsed), nil)
		if !near(c.Precision, tt.precision) || !near(c.Recall, tt.recall) {
			t.Errorf("%s, %s: got precision %g, recall %g, want %g, %g: %s",
				tt.real, tt.rehearsed, c.Precision, c.Recall, tt.precision, tt.recall, tt.reason)
		}
	}
}

func TestBijection(t *testing.T) {
	t.Parallel()
	r := rules(t, indent("\"**/id\": id\n/list: {array: keyed, fields: [id]}"))
	var ids diff.Bijection
	steps := []struct{ real, rehearsed, want, reason string }{
		{`{"id":"W1"}`, `{"id":"R1"}`, "", "a new pair"},
		{`{"x":{"id":"W1"}}`, `{"x":{"id":"R1"}}`, "", "used consistently in a later answer"},
		{`{"id":"W1"}`, `{"id":"R2"}`, "inconsistent", "one real id under two names"},
		{`{"id":"W2"}`, `{"id":"R1"}`, "inconsistent", "two real ids under one name"},
		{`{"id":1}`, `{"id":"R3"}`, "type_changed", "an id keeps its type"},
		{
			`{"list":[{"id":"W1","n":1},{"id":"W5","n":2}]}`, `{"list":[{"id":"R5","n":2},{"id":"R1","n":1}]}`, "",
			"elements are found by the renaming, and new ids by likeness",
		},
	}
	for i, step := range steps {
		before := ids.Clone()
		c := diff.Compare(r, decode(t, step.real), decode(t, step.rehearsed), &ids)
		var got []string
		for _, d := range c.Differences {
			got = append(got, string(d.Kind))
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("step %d: got %s, want %q: %s", i, c.Explain(), step.want, step.reason)
		}
		if before.Len() > ids.Len() {
			t.Errorf("step %d: the renaming lost a pair", i)
		}
	}
	if got, _ := ids.Rehearsed(`"W5"`); got != `"R5"` {
		t.Errorf("got %s for W5, want R5", got)
	}
	if got, _ := ids.Real(`"R1"`); got != `"W1"` {
		t.Errorf("got %s for R1, want W1", got)
	}
	snapshot := ids.Clone()
	ids.Bind(`"W9"`, `"R9"`)
	if _, known := snapshot.Rehearsed(`"W9"`); known {
		t.Error("a snapshot sees later pairs")
	}
}
