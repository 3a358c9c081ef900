package diff_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"understudy/audit/diff"
)

// TestRecordings reads recorded answers of real tools, where they lie beside the
// checkout: every one decodes or is plain text, equals itself, and every recorded
// delta survives its round trip and undoes itself.
func TestRecordings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(casesPath()), "..", "data", "tau2", "*", "trace.*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no recordings beside the checkout: set UNDERSTUDY_DATA")
	}
	for _, name := range files {
		t.Run(filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			checkRecording(t, name)
		})
	}
}

func checkRecording(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	encodings := map[diff.Encoding]int{}
	for n := 1; lines.Scan(); n++ {
		var row struct {
			Content string
			Delta   diff.Patch
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s:%d: %v", name, n, err)
		}
		answer, err := diff.Normalise([]byte(row.Content), diff.DefaultLimits())
		if err != nil && row.Content != "" {
			t.Errorf("%s:%d: %v", name, n, err)
			continue
		}
		for _, e := range answer.Encodings {
			encodings[e]++
		}
		if c := diff.Compare(nil, answer.Value, answer.Value, nil); !c.Exact() || c.F1 != 1 {
			t.Errorf("%s:%d: differs from itself: %s", name, n, c.Explain())
		}
		if twice := row.Delta.Invert().Invert(); !twice.Equal(row.Delta) {
			t.Errorf("%s:%d: inverted twice: %v", name, n, twice)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("encodings seen: %v", encodings)
}
