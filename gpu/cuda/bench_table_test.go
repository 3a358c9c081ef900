package cuda_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The table of bench.sh says what share of the card's limits was reached, and whether that is the aim.
func TestBenchTable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours := write("go", `goos: linux
BenchmarkCard/copy-16         	3	1 ns/op	4000 GB/s
BenchmarkCard/matmul/fast-16  	3	1 ns/op	700.0 TFLOP/s
BenchmarkCard/0.6B/prefill-16 	3	1 ns/op	2.000 GFLOP/token	70000 tokens/s
BenchmarkCard/0.6B/decode/batch=1/shared=1-16  	3	1 ns/op	1000 MB/token	1600 tokens/s
BenchmarkCard/0.6B/decode/batch=256/shared=1-16	3	1 ns/op	100.0 MB/token	19000 tokens/s
BenchmarkCard/0.6B/decode/batch=256/shared=8-16	3	1 ns/op	25.00 MB/token	38000 tokens/s
BenchmarkCard/0.6B/train-16   	3	1 ns/op	4.000 GFLOP/token	98900 tokens/s
PASS
`)
	torch := write("torch", "0.6B/train 49450\n0.6B/decode/batch=1/shared=1 3200\n")
	table, err := exec.CommandContext(t.Context(), "awk", "-v", "sheet=989", "-v", "judged=1", "-f", "bench.awk", torch, ours).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(table), "\n")
	for i, want := range []string{
		"what", "copy", "matmul/fast",
		"0.6B/prefill 70000.0 tokens/s - - 20.0 % of matmul/fast; 14.2 % of the sheet's 989 TFLOP/s",
		"0.6B/decode/batch=1/shared=1 1600.0 tokens/s 3200.0 0.50 40.0 % of the bytes that copy moves; aim 40: met; torch: aim 1: NOT MET",
		"0.6B/decode/batch=256/shared=1 19000.0 tokens/s - - 47.5 % of the bytes that copy moves; aim 50: NOT MET",
		"0.6B/decode/batch=256/shared=8 38000.0 tokens/s - - 23.8 % of the bytes that copy moves",
		"groups of 8, over plain 2.00 times - - aim 1.8: met",
		"0.6B/train 98900.0 tokens/s 49450.0 2.00 56.5 % of matmul/fast; 40.0 % of the sheet's 989 TFLOP/s; aim 40: met; torch: aim 1: met",
		"",
	} {
		if i >= len(lines) || !strings.HasPrefix(strings.Join(strings.Fields(lines[i]), " "), want) {
			t.Errorf("line %d of\n%s\nlacks %q", i, table, want)
		}
	}
}
