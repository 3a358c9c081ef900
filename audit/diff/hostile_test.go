package diff_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"understudy/audit/diff"
)

// TestHostile: texts that a hostile policy may write end in bounded time and
// memory. The test's own time limit is the proof of time; allocation is counted.
func TestHostile(t *testing.T) {
	list := func(n int, element func(i int) string) string {
		var out strings.Builder
		for i := range n {
			out.WriteByte(',')
			out.WriteString(element(i))
		}
		return "[" + out.String()[1:] + "]"
	}
	nested := func(depth, width int) string {
		text := "0"
		for d := range depth {
			text = list(width, func(i int) string { return fmt.Sprintf(`{"k%d":%s,"n":%d}`, i%2, text, d*i) })
		}
		return text
	}
	tests := []struct{ name, paths, real, rehearsed, reason string }{
		{"depth 100000", "", "{}", strings.Repeat(`{"a":`, 100_000), "a class, no stack overflow"},
		{"one mebibyte string", "", `"` + strings.Repeat("é", 500_000) + `"`, `"` + strings.Repeat("e", 1_000_000) + `"`, "linear"},
		{"one mebibyte text", "/*: text", `["` + strings.Repeat("ab ", 300_000) + `"]`, `["` + strings.Repeat("ba ", 300_000) + `"]`, "n log n"},
		{"huge number", "\"\": {rule: number, abs: 1}", strings.Repeat("7", 1_000_000), strings.Repeat("7", 999_999) + "8", "no quadratic conversion"},
		{"long fraction", "\"\": {rule: number, rel: 0.5}", "0." + strings.Repeat("0", 900_000) + "1", "1e-400", "no power of ten that size"},
		{"hostile exponent", "", "1", "1e400000000", "never computed"},
		{
			"equal hashes", `"": {array: multiset}`, list(45_000, func(int) string { return "0" }),
			list(45_001, func(int) string { return "0" }), "100,000 equal elements",
		},
		{
			"equal hashes, ordered", "", list(45_000, func(i int) string { return strconv.Itoa(i % 2) }),
			list(45_000, func(i int) string { return strconv.Itoa((i + 1) % 2) }), "edit script of two periodic lists",
		},
		{
			"nothing in common", `"": {array: multiset}`, list(10_000, func(i int) string { return fmt.Sprintf(`{"a":%d,"c":1}`, i) }),
			list(10_000, func(i int) string { return fmt.Sprintf(`{"b":%d,"c":2}`, -i) }), "greedy, near-linear",
		},
		{
			"reversed", "", list(45_000, func(i int) string { return strconv.Itoa(i) }),
			list(45_000, func(i int) string { return strconv.Itoa(45_000 - i) }), "as many edits as elements",
		},
		{"nested multisets", `"**": {array: multiset}`, nested(6, 4), strings.ReplaceAll(nested(6, 4), `"n":3`, `"n":8`), "candidates within candidates"},
		{"nested lists", "", nested(10, 2), strings.ReplaceAll(nested(10, 2), `"n":1`, `"n":8`), "candidates within candidates"},
		{
			"one key", `"": {array: keyed, fields: [a]}`, list(20_000, func(i int) string { return fmt.Sprintf(`{"a":1,"b":%d}`, i) }),
			list(20_000, func(i int) string { return fmt.Sprintf(`{"a":1,"b":%d}`, i*7) }), "duplicate keys fall back to a multiset",
		},
		{
			"many rules", manyRules(200), list(1000, func(i int) string { return fmt.Sprintf(`{"f%d":{"x":1}}`, i%200) }),
			list(1000, func(i int) string { return fmt.Sprintf(`{"f%d":{"x":2}}`, i%200) }), "rules with ** at every level",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, errX := diff.Decode([]byte(tt.real), diff.DefaultLimits())
			y, errY := diff.Decode([]byte(tt.rehearsed), diff.DefaultLimits())
			r := rules(t, indent(tt.paths))
			if errX != nil || errY != nil {
				t.Logf("refused: %v, %v", errX, errY)
				return
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c := diff.Compare(r, x, y, nil)
			runtime.ReadMemStats(&after)
			const limit = 512 << 20
			if used := after.TotalAlloc - before.TotalAlloc; used > limit {
				t.Errorf("allocated %d MiB: %s", used>>20, tt.reason)
			}
			if c.Exact() {
				t.Errorf("nothing differs: %s", tt.reason)
			}
			t.Logf("%d differences, %v, %d MiB", len(c.Differences), c.Flags, (after.TotalAlloc-before.TotalAlloc)>>20)
		})
	}
}

func manyRules(n int) string {
	lines := make([]string, 0, n)
	for i := range n {
		lines = append(lines, fmt.Sprintf(`"**/f%d/**": {weight: 3}`, i))
	}
	return strings.Join(lines, "\n")
}
