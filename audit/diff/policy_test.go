package diff_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/audit/diff"
)

const samplePolicy = `version: "3"
tools:
  "*":
    /updated_at: volatile
    "**/note": text
  get_order:
    /order_id: key
    /total: {rule: number, abs: 0.01}
    /items: {array: keyed, fields: [item_id]}
    /items/*/note: {equate: [absent, null]}
    "regex:(?i)time$": {rule: timestamp, tolerance: 5s}
`

func TestPolicy(t *testing.T) {
	t.Parallel()
	policy, err := diff.ParsePolicy([]byte(samplePolicy))
	if err != nil {
		t.Fatal(err)
	}
	inGo, err := diff.NewPolicy("3", map[string][]diff.PathRule{
		"*": {{"/updated_at", diff.Rule{Class: diff.Volatile}}, {"**/note", diff.Rule{Class: diff.Text}}},
		"get_order": {
			{"regex:(?i)time$", diff.Rule{Class: diff.Timestamp, Tolerance: 5 * time.Second}},
			{"/items/*/note", diff.Rule{Equate: [][2]diff.Void{{diff.VoidAbsent, diff.VoidNull}}}},
			{"/items", diff.Rule{Array: diff.Keyed, Fields: []string{"item_id"}}},
			{"/total", diff.Rule{Class: diff.Number, Abs: 0.01}},
			{"/order_id", diff.Rule{Class: diff.Echo}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if policy.Digest() != inGo.Digest() || policy.Version() != "3" {
		t.Errorf("the same rules in YAML and in Go, in another order, have two digests")
	}
	changed, err := diff.ParsePolicy([]byte(strings.Replace(samplePolicy, "0.01", "0.02", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if policy.Digest() == changed.Digest() {
		t.Error("another tolerance has the same digest")
	}
	tests := []struct{ tool, real, rehearsed, want, reason string }{
		{"get_order", `{"updated_at":1,"total":1.00}`, `{"updated_at":2,"total":1.01}`, "", "rules of every tool and of this one"},
		{"other", `{"total":1.00}`, `{"total":1.01}`, "/total: real 1.00, rehearsed 1.01\n", "another tool's rules do not apply"},
		{
			"get_order", `{"items":[{"item_id":1,"note":null}]}`, `{"items":[{"item_id":1}]}`,
			"/items/0/note: real null, rehearsed nothing [text] (cosmetic)\n", "attributes of two patterns are joined",
		},
		{"get_order", `{"StartTime":"2024-05-15T15:00:00Z"}`, `{"StartTime":"2024-05-15T15:00:05Z"}`, "", "a regex, tolerance inclusive"},
	}
	for _, tt := range tests {
		c := diff.Compare(policy.For(tt.tool), decode(t, tt.real), decode(t, tt.rehearsed), nil)
		if got := c.Explain(); got != tt.want {
			t.Errorf("%s, %s: got %q, want %q: %s", tt.real, tt.rehearsed, got, tt.want, tt.reason)
		}
	}
	var none *diff.Policy
	if none.For("x") != nil || none.Digest() != [32]byte{} {
		t.Error("a nil policy must compare exactly and have no digest")
	}
}

func TestPolicyErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text   string
		line   int
		want   []string // parts of the message
		reason string
	}{
		{"versio: 1", 1, []string{`"versio"`, `did you mean "version"`}, "an unknown key of the document"},
		{"version: 1\ntools:\n  t:\n    /a: volatil", 4, []string{`"volatil"`, `did you mean "volatile"`}, "an unknown rule, short form"},
		{"version: 1\ntools:\n  t:\n    /a:\n      rule: exact\n      wieght: 2", 6, []string{`"wieght"`, `did you mean "weight"`}, "an unknown attribute"},
		{"version: 1\ntools:\n  t:\n    /a:\n      rule: number\n      abs: much", 6, []string{"abs", "much"}, "no number"},
		{"version: 1\ntools:\n  t:\n    /a: {rule: number, abs: -1}", 4, []string{"negative"}, "a negative tolerance"},
		{"version: 1\ntools:\n  t:\n    /a: {rule: number, rel: .nan}", 4, []string{"rel"}, "no number either"},
		{"version: 1\ntools:\n  t:\n    a/b: exact", 4, []string{`"a/b"`, "begin"}, "a pattern that is no pointer"},
		{"version: 1\ntools:\n  t:\n    /a~2: exact", 4, []string{"~0"}, "a bad escape"},
		{"version: 1\ntools:\n  t:\n    \"regex:(\": exact", 4, []string{"RE2"}, "a bad expression"},
		{"version: 1\ntools:\n  t:\n    /a/*: exact\n    /*/b: text", 0, nil, "the literal further to the left is more specific"},
		{"version: 1\ntools:\n  t:\n    /**/a/*: exact\n    /**/*/b: text", 0, nil, "and so below **"},
		{"version: 1\ntools:\n  t:\n    \"**/a\": exact\n    \"/**/a\": text", 5, []string{"contradicts", "line 4", "both set rule"}, "one pattern in two spellings"},
		{"version: 1\ntools:\n  t:\n    /a: {array: keyed}", 4, []string{"fields"}, "keyed without fields"},
		{"version: 1\ntools:\n  t:\n    /a: {array: multset}", 4, []string{`did you mean "multiset"`}, "an unknown array mode"},
		{"version: 1\ntools:\n  t:\n    /a: {array: multiset, fields: [id]}", 4, []string{"contradict"}, "fields without keyed"},
		{"version: 1\ntools:\n  t:\n    /a: {rule: exact, tolerance: 5s}", 4, []string{"timestamp"}, "a tolerance without timestamp"},
		{"version: 1\ntools:\n  t:\n    /a: {equate: [absent, nul]}", 4, []string{`did you mean "null"`}, "an unknown void"},
		{"version: 1\ntools:\n  t:\n    /a: {equate: [null, null]}", 4, []string{"itself"}, "equated with itself"},
		{"version: 1\ntools:\n  t:\n    /a: {presence: maybe}", 4, []string{"maybe", "optional"}, "an unknown presence"},
		{"version: 1\ntools:\n  t:\n    /a: exact\n    /a: text", 5, []string{"/a"}, "one key twice"},
		{"version: 1\ntools: [t]", 2, []string{"mapping"}, "a list of tools"},
		{"tools: {}", 0, []string{"version"}, "no version"},
		{"version: 1\ntools: {t: {/a: [}}", 2, nil, "no YAML"},
		{"", 0, []string{"version"}, "nothing"},
	}
	for _, tt := range tests {
		_, err := diff.ParsePolicy([]byte(tt.text))
		if tt.line == 0 && tt.want == nil {
			if err != nil {
				t.Errorf("%q: got %v, want no error: %s", tt.text, err, tt.reason)
			}
			continue
		}
		bad, ok := errors.AsType[*diff.PolicyError](err)
		if !ok {
			t.Errorf("%q: got %v, want a policy error: %s", tt.text, err, tt.reason)
			continue
		}
		if bad.Line != tt.line {
			t.Errorf("%q: got line %d in %v, want %d: %s", tt.text, bad.Line, err, tt.line, tt.reason)
		}
		for _, part := range tt.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: got %v, want %q in it: %s", tt.text, err, part, tt.reason)
			}
		}
	}
}

// TestSpecificity: the most specific pattern wins, attribute by attribute.
func TestSpecificity(t *testing.T) {
	t.Parallel()
	tests := []struct{ paths, pointer, want, reason string }{
		{"\"**\": text\n/a: enum", "/a", "enum", "a literal over **"},
		{"/*: text\n/a: enum", "/a", "enum", "a literal over *"},
		{"\"**\": text\n/*: enum", "/a", "enum", "* over **"},
		{"/a/*: enum\n/*/b: text", "/a/b", "enum", "a literal further to the left"},
		{"\"**/b\": text\n/a/**: enum", "/a/b", "enum", "the same below **"},
		{"\"regex:.\": text\n\"**\": enum", "/a", "enum", "a pointer over a regex"},
		{"\"regex:a\": enum\n\"regex:b$\": text", "/a/b", "enum", "the first of two regexes"},
		{"/a/**: enum", "/a", "enum", "** stands for no token too"},
		{"\"/a/**/b\": enum", "/a/x/y/b", "enum", "** stands for several tokens"},
		{"/a/0: enum\n/a/*: text", "/a/0", "enum", "an index over *"},
	}
	for _, tt := range tests {
		realValue, rehearsed := "1", "true" // types differ: always reported
		tokens := strings.Split(tt.pointer, "/")[1:]
		for _, token := range slices.Backward(tokens) {
			open, closing := `{"`+token+`":`, "}"
			if token == "0" {
				open, closing = "[", "]"
			}
			realValue, rehearsed = open+realValue+closing, open+rehearsed+closing
		}
		c := diff.Compare(rules(t, indent(tt.paths)), decode(t, realValue), decode(t, rehearsed), nil)
		if len(c.Differences) != 1 || c.Differences[0].Pointer != tt.pointer || string(c.Differences[0].Class) != tt.want {
			t.Errorf("%q at %s: got %v, want %s: %s", tt.paths, tt.pointer, c.Differences, tt.want, tt.reason)
		}
	}
}
