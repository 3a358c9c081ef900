package main

import (
	"testing"
)

func TestRows(t *testing.T) {
	lines := parse([]byte("goos: linux\nBenchmarkX/a=1-2  \t 10\t 2500000 ns/op\t 1.30 of-other\t 7 B/op\nPASS\n"))
	for _, row := range []struct {
		reason string
		claim  claim
		want   string
		fails  bool
	}{
		{"a ratio over its goal", claim{what: "w", bench: "BenchmarkX/a=1", unit: "of-other", written: "%.2f times", goal: 1, beside: []string{"B/op"}}, "| w | 1.30 times | 7 B/op | at least 1.00 times | met |", false},
		{"a time over its bound", claim{what: "w", bench: "BenchmarkX/.*", unit: "ns/op", scale: 1e-6, written: "%.1f ms", goal: 2, atMost: true}, "| w | 2.5 ms |  | at most 2.0 ms | NOT MET |", false},
		{"another library is not there", claim{what: "w", bench: "BenchmarkX/a=1", unit: "of-else", written: "%.0f", goal: 3, needs: "else"}, "", false},
		{"a figure that is gone", claim{what: "w", bench: "BenchmarkX/a=1", unit: "of-else", written: "%.0f"}, "", true},
		{"a benchmark that is gone", claim{what: "w", bench: "BenchmarkX", unit: "ns/op", written: "%.0f"}, "", true},
	} {
		got, err := row.claim.row(lines)
		if got != row.want || (err != nil) != row.fails {
			t.Errorf("%s: %q, %v, want %q", row.reason, got, err, row.want)
		}
	}
}
