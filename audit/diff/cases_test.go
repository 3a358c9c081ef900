package diff_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"understudy/audit/diff"
)

// comparisonCase is a comparison that well-known libraries get wrong.
type comparisonCase struct {
	id              string
	paths           string // rules of the tool, as YAML lines
	real, rehearsed string // JSON; a text in angle brackets names a generator of bigText
	verdict         string // equal, cosmetic, different, or the class of a text that is refused
	want            string // of each difference: kind pointer class
	flags           string
	reason          string
}

func comparisonCases() []comparisonCase {
	return []comparisonCase{
		{
			id: "num-bigint-53", real: `{"id":9007199254740993}`, rehearsed: `{"id":9007199254740992}`,
			verdict: "different", want: "changed /id exact", reason: "a float would make both equal",
		},
		{
			id: "num-bigint-19", real: `{"id":1234567890123456789}`, rehearsed: `{"id":1234567890123456788}`,
			verdict: "different", want: "changed /id exact", reason: "ids of 19 digits differ in the last",
		},
		{
			id: "num-abs-tol", real: `{"foo":{"bar":42.420001}}`, rehearsed: `{"foo":{"bar":42.42}}`,
			paths:   `/foo/bar: {rule: number, abs: 0.01}`,
			verdict: "equal", reason: "within the absolute tolerance",
		},
		{
			id: "num-tol-in-multiset", real: `[1.0001,2]`, rehearsed: `[2,1.0]`,
			paths:   "\"\": {array: multiset}\n/*: {rule: number, abs: 0.01}",
			verdict: "equal", reason: "a tolerance holds after elements were paired by hash",
		},
		{
			id: "num-neg-zero", real: `[0]`, rehearsed: `[-0.0]`, paths: `"": {array: multiset}`,
			verdict: "equal", reason: "zero has no sign",
		},
		{
			id: "num-exp-form", real: `{"ms":1521222334104}`, rehearsed: `{"ms":1.521222334104e12}`,
			verdict: "equal", reason: "one decimal in two spellings",
		},
		{
			id: "num-huge-exp", real: `{"x":1}`, rehearsed: `{"x":1e400000000}`,
			verdict: "oversize_exponent", reason: "a hostile exponent is a class, not a computation",
		},
		{
			id: "null-vs-missing", real: `{"a":null}`, rehearsed: `{}`,
			verdict: "different", want: "absent_vs_null /a exact", reason: "absent and null are two things",
		},
		{
			id: "null-vs-missing/equated", real: `{"a":null}`, rehearsed: `{}`, paths: `/a: {equate: [absent, null]}`,
			verdict: "cosmetic", want: "absent_vs_null /a exact", reason: "equated by policy is cosmetic, never silent",
		},
		{
			id: "null-vs-array-print", real: `{"foo":["bar"]}`, rehearsed: `{"foo":null}`,
			verdict: "different", want: `type_changed /foo exact ["bar"] null`, reason: "the whole value is reported",
		},
		{
			id: "false-vs-null-in-unordered", real: `{"items":[{"success":false}]}`, rehearsed: `{"items":[{"success":null}]}`,
			paths:   `/items: {array: multiset}`,
			verdict: "different", want: "type_changed /items/0/success exact false null", reason: "false and null never hash alike",
		},
		{
			id: "emptystr-vs-emptyarr", real: `[[]]`, rehearsed: `[""]`, paths: `"": {array: multiset}`,
			verdict: "different", want: `type_changed /0 exact [] ""`, reason: "two kinds of empty",
		},
		{
			id: "emptyobj-vs-emptyarr", real: `[{}]`, rehearsed: `[[]]`, paths: `"": {array: multiset}`,
			verdict: "different", want: `type_changed /0 exact {} []`, reason: "two kinds of empty",
		},
		{
			id: "ms-swap-count", real: `[1,1,2]`, rehearsed: `[1,2,2]`, paths: `"": {array: multiset}`,
			verdict: "different", want: "changed /1 exact 1 2", reason: "multiplicity counts",
		},
		{
			id: "ms-nesting-boundary", real: `[["a"],"b"]`, rehearsed: `["a",["b"]]`, paths: `"": {array: multiset}`,
			verdict: "different", want: `changed /0/0 exact "a" "b"; changed /1 exact "b" "a"`,
			reason: "the hash says where each element ends",
		},
		{
			id: "ms-dup-dicts-vs-one", real: `[{"id":1},{"id":1},{"id":1}]`, rehearsed: `[{"id":1,"name":1}]`,
			paths:   `"": {array: multiset}`,
			verdict: "different", want: "extra /0/name exact; missing /1 exact; missing /2 exact",
			reason: "one is completed, two are missing",
		},
		{
			id: "ms-nested-recursive", real: `[1,2,[3,[4,5]]]`, rehearsed: `[[[5,4],3],2,1]`, paths: `"**": {array: multiset}`,
			verdict: "equal", reason: "order means nothing at any depth",
		},
		{
			id: "ms-pair-then-diff", real: `{"m":[{"ts":"2018-12-19T11:57:13Z","s":[{"v":"0"}]}]}`,
			rehearsed: `{"m":[{"ts":"2018-12-20T17:23:58Z","s":[{"v":"0"}]}]}`, paths: `/m: {array: multiset}`,
			verdict: "different", want: "changed /m/0/ts exact", reason: "elements are paired before they are compared",
		},
		{
			id: "ms-all-changed", real: `[{"id":1,"p":1},{"id":2,"p":2}]`, rehearsed: `[{"id":2,"p":3},{"id":1,"p":2}]`,
			paths:   `"": {array: keyed, fields: [id]}`,
			verdict: "different", want: "changed /0/p exact 1 2; changed /1/p exact 2 3", reason: "ids pair even when all else differs",
		},
		{
			id: "ms-maps-order", real: `[{"test":2,"a":"x"},{"test":12}]`, rehearsed: `[{"test":12},{"test":2,"a":"y"}]`,
			paths:   `"": {array: multiset}`,
			verdict: "different", want: `changed /0/a exact "x" "y"`, reason: "what is left is paired by likeness, not by index",
		},
		{
			id: "keyed-dup-key-lost", real: `[{"id":1,"v":1},{"id":1,"v":2},{"id":2}]`, rehearsed: `[{"id":1,"v":2},{"id":2}]`,
			paths:   `"": {array: keyed, fields: [id]}`,
			verdict: "different", want: "missing /0 exact", flags: "duplicate_key", reason: "a duplicate key loses no element",
		},
		{
			id:        "keyed-composite-nested",
			real:      `{"moves":[{"move":{"n":"a"},"d":[{"vg":{"n":"x"},"m":"p","l":0}]}]}`,
			rehearsed: `{"moves":[{"move":{"n":"a"},"d":[{"vg":{"n":"y"},"m":"p","l":0}]}]}`,
			paths:     "/moves: {array: keyed, fields: [move]}\n/moves/*/d: {array: keyed, fields: [vg, m]}",
			verdict:   "different", want: "missing /moves/0/d/0 exact; extra /moves/0/d/0 exact",
			reason: "another key is another row",
		},
		{
			id: "keyed-is-not-ignore", real: `{"rules":[{"c":"x","r":"1"}]}`, rehearsed: `{"rules":[{"c":"x","r":"2"}]}`,
			paths:   `/rules: {array: keyed, fields: [c]}`,
			verdict: "different", want: "changed /rules/0/r exact", reason: "fields outside the key still count",
		},
		{
			id: "lcs-middle-delete", real: `[1,2,3,4,5]`, rehearsed: `[1,2,4,5]`, paths: `"": {array: ordered}`,
			verdict: "different", want: "missing /2 exact 3", reason: "one deletion does not shift the rest",
		},
		{
			id: "lcs-multi-delete", real: `{"arr":[1,2,3,4]}`, rehearsed: `{"arr":[1,2]}`,
			verdict: "different", want: "missing /arr/2 exact 3; missing /arr/3 exact 4", reason: "indices are those of the real answer",
		},
		{
			id: "lcs-mixed-edit", real: `[1,2,3,4,5,6,7,10,11,12,8]`, rehearsed: `[1,2,3,4,5,6,7,9,10,11,8]`,
			verdict: "different", want: "missing /9 exact 12; extra /7 exact 9", reason: "the patch of it gives the other list exactly",
		},
		{
			id: "len-left-lt-right", real: `{"a":["x"]}`, rehearsed: `{"a":["p","q"]}`,
			verdict: "different", want: `changed /a/0 exact "x" "p"; extra /a/1 exact "q"`, reason: "each value once",
		},
		{
			id: "sibling-prefix-path", real: `{"key":{"b":{"n":"1"}},"name":"b1"}`, rehearsed: `{"key":{"bb":{"n":"1"}},"name":"b1"}`,
			verdict: "different", want: "missing /key/b exact; extra /key/bb exact", reason: "paths are tokens, not text prefixes",
		},
		{
			id: "false-move", real: `{"age":10}`, rehearsed: `{"height":10}`,
			verdict: "different", want: "missing /age exact; extra /height exact", reason: "an equal value is no relation",
		},
		{
			id: "dotted-key", real: `{"u":{"a.b":1}}`, rehearsed: `{"u":{"a.b":2}}`,
			verdict: "different", want: "changed /u/a.b exact", reason: "a dot is part of a name",
		},
		{
			id: "dup-keys", real: `{"a":1}`, rehearsed: `{"a":2,"a":1}`,
			verdict: "equal", flags: "duplicate_key", reason: "the last one wins, and the hidden one is flagged",
		},
		{
			id: "threshold-root", real: `{"a":{"x":1},"b":"1","c":"1","d":"1"}`, rehearsed: `{"a":{"x":2}}`,
			verdict: "different", want: "changed /a/x exact; missing /b exact; missing /c exact; missing /d exact",
			reason: "no threshold below which the root is replaced",
		},
		{
			id: "dynamic-keys", real: `{"orders":{"1001":{"st":"open"},"1002":{"st":"open"}}}`,
			rehearsed: `{"orders":{"1001":{"st":"open"},"1002":{"st":"shut"}}}`, paths: `/orders: {map: true}`,
			verdict: "different", want: "changed /orders/1002/st exact", reason: "counted by /orders/*/st, shown with its instance",
		},
		{
			id: "ign-index-leak", real: `{"i":[{"ts":1},{"ts":2}]}`, rehearsed: `{"i":[{"ts":3},{"ts":4}]}`,
			paths:   `/i/0/ts: volatile`,
			verdict: "different", want: "changed /i/1/ts exact", reason: "a rule for index 0 is for index 0",
		},
		{
			id: "ign-key-only-one-side", real: `{}`, rehearsed: `{"foo":"","bar":""}`,
			paths:   "/foo: {rule: volatile, presence: optional}\n/bar: {rule: volatile, presence: optional}",
			verdict: "equal", reason: "presence, too, can be left open, on either side",
		},
		{
			id: "ign-regex-anchor", real: `{"createTime":1,"timezone":"x"}`, rehearsed: `{"createTime":2,"timezone":"y"}`,
			paths:   `"regex:(?i)time$": volatile`,
			verdict: "different", want: "changed /timezone exact", reason: "the expression is matched against the pointer, so $ works",
		},
		{
			id: "noise-agrees-by-chance", real: `{"date":"Mon, 11 Jan 2016 10:00:00 GMT"}`,
			rehearsed: `{"date":"Mon, 11 Jan 2016 10:00:01 GMT"}`,
			verdict:   "different", want: "changed /date exact",
			reason: "without a learned mask it counts; TestMask shows it masked: history decides, not one twin",
		},
		{
			id: "out-envelope", real: `{"error":"order not found"}`,
			rehearsed: `{"error_tool_call":{"code":"INVALID_PARAMETERS","message":"x"}}`,
			verdict:   "different", want: "missing /error exact; extra /error_tool_call exact",
			reason: "values differ; audit normalises the envelopes and compares families first",
		},
		{
			id: "out-soft-error", real: `{"success":false,"message":"insufficient balance"}`, rehearsed: `{"success":true,"balance":10}`,
			verdict: "different", want: "extra /balance exact; missing /message exact; changed /success exact false true",
			reason: "values differ; audit reads success: false as an error outcome",
		},
		{
			id: "out-unrepresentable", real: `{}`, rehearsed: `{"status":"ok"}`,
			verdict: "different", want: "extra /status exact", reason: "values differ; audit masks what the format cannot say",
		},
		{
			id: "id-bijection-ok", real: `{"order_id":"W100","items":[{"order_id":"W100"}]}`,
			rehearsed: `{"order_id":"W777","items":[{"order_id":"W777"}]}`, paths: "/order_id: id\n/items/*/order_id: id",
			verdict: "equal", reason: "another id, used consistently",
		},
		{
			id: "id-bijection-broken", real: `{"order_id":"W100","items":[{"order_id":"W100"}]}`,
			rehearsed: `{"order_id":"W777","items":[{"order_id":"W778"}]}`, paths: "/order_id: id\n/items/*/order_id: id",
			verdict: "different", want: "inconsistent /order_id id", reason: "one id cannot stand for two",
		},
		{
			id: "perf-int-array-1-change", real: "<10000 ints>", rehearsed: "<10000 ints, one changed>",
			verdict: "different", want: "changed /items/5000 exact 5000 -1", reason: "near-linear; BenchmarkInts has the time",
		},
		{
			id: "perf-shuffled-objects", real: "<400 objects>", rehearsed: "<400 objects, shuffled, all changed>",
			paths:   `"": {array: keyed, fields: [id]}`,
			verdict: "different", want: "400 changed", reason: "paired by key; BenchmarkKeyedAllChanged has the time",
		},
		{
			id: "depth-10001", real: "<10001 nested objects>", rehearsed: `{}`,
			verdict: "oversize_depth", reason: "too deep is a class, not a stack overflow",
		},
		{
			id: "body-truncated", real: `{"a":1,"b":2}`, rehearsed: `{"a":1,"b":`,
			verdict: "truncated", reason: "a cut body is a capture error: audit masks it",
		},
	}
}

// bigText is the text of a case that is too large to write down.
func bigText(name string) string {
	ints := func(changed int) string {
		var out strings.Builder
		for i := range 10_000 {
			if i == changed {
				i = -1
			}
			fmt.Fprintf(&out, ",%d", i)
		}
		return `{"items":[` + out.String()[1:] + `]}`
	}
	objects := func(step, bonus int) string {
		var out strings.Builder
		for k := range 400 {
			i := k * step % 400 // 7 and 400 have no common factor: a permutation
			fmt.Fprintf(&out, `,{"id":%d,"name":"item %d","price":%d}`, i, i, i+bonus)
		}
		return `[` + out.String()[1:] + `]`
	}
	switch name {
	case "<10000 ints>":
		return ints(-1)
	case "<10000 ints, one changed>":
		return ints(5000)
	case "<400 objects>":
		return objects(1, 0)
	case "<400 objects, shuffled, all changed>":
		return objects(7, 1)
	case "<10001 nested objects>":
		return strings.Repeat(`{"a":`, 10_001) + "{}" + strings.Repeat("}", 10_001)
	}
	return name
}

// judge decodes and compares one case.
func judge(t *testing.T, tt comparisonCase) (verdict, want, flags string) {
	t.Helper()
	var values [2]diff.Value
	for i, text := range []string{tt.real, tt.rehearsed} {
		v, err := diff.Decode([]byte(bigText(text)), diff.DefaultLimits())
		if failure, ok := errors.AsType[*diff.DecodeError](err); ok {
			return string(failure.Class), "", ""
		}
		values[i] = v
	}
	c := diff.Compare(rules(t, indent(tt.paths)), values[0], values[1], nil)
	verdict = "different"
	switch {
	case c.Exact():
		verdict = "equal"
	case c.Equal():
		verdict = "cosmetic"
	}
	return verdict, describe(c.Differences, tt.want), strings.Join(c.Flags, " ")
}

// describe writes differences as the table does: as much of each as is wanted.
func describe(differences []diff.Difference, want string) string {
	wanted := strings.Split(want, "; ")
	if n, ok := strings.CutSuffix(want, " changed"); ok {
		count := 0
		for _, d := range differences {
			if d.Kind == diff.Changed {
				count++
			}
		}
		if strconv.Itoa(count) == n && count == len(differences) {
			return want
		}
	}
	var out []string
	for i, d := range differences {
		text := []string{string(d.Kind), d.Pointer, string(d.Class)}
		if i < len(wanted) && len(strings.Fields(wanted[i])) > 3 {
			for _, value := range []json.RawMessage{d.Real, d.Rehearsed} {
				if value != nil {
					text = append(text, string(value))
				}
			}
		}
		out = append(out, strings.Join(text, " "))
	}
	return strings.Join(out, "; ")
}

func indent(paths string) string {
	if paths == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(paths, "\n", "\n    ")
}

func TestComparisonCases(t *testing.T) {
	t.Parallel()
	for _, tt := range comparisonCases() {
		t.Run(tt.id, func(t *testing.T) {
			t.Parallel()
			verdict, want, flags := judge(t, tt)
			if verdict != tt.verdict || want != tt.want || flags != tt.flags {
				t.Errorf("got %s [%s] flags %q, want %s [%s] flags %q: %s",
					verdict, want, flags, tt.verdict, tt.want, tt.flags, tt.reason)
			}
		})
	}
}

// TestComparisonCasesCover reads the cases that are shared beside the checkout,
// where they are, and checks that our table has every one.
func TestComparisonCasesCover(t *testing.T) {
	t.Parallel()
	file, err := os.Open(casesPath())
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no shared cases at %s: nothing to cover", casesPath())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	have := comparisonCases()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct{ ID, Real, Rehearsed string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(have, func(c comparisonCase) bool { return c.id == row.ID })
		if i < 0 {
			t.Errorf("case %s is not in our table", row.ID)
			continue
		}
		if !strings.HasPrefix(have[i].real, "<") && (have[i].real != row.Real || have[i].rehearsed != row.Rehearsed) {
			t.Errorf("case %s compares %s with %s, want %s with %s",
				row.ID, have[i].real, have[i].rehearsed, row.Real, row.Rehearsed)
		}
	}
}

// casesPath is the file of shared cases: below UNDERSTUDY_DATA's neighbour, or
// beside the checkout.
func casesPath() string {
	root := os.Getenv("UNDERSTUDY_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	return filepath.Join(filepath.Dir(filepath.Clean(root)), "cases", "differ.jsonl")
}
