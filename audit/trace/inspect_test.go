package trace_test

import (
	"archive/zip"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"understudy/audit"
	"understudy/audit/trace"
)

func inspectLog(t *testing.T, method uint16, samples map[string]string) string {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	w.RegisterCompressor(zstd.ZipMethodWinZip, zstd.ZipCompressor())
	for name, body := range samples {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(entry, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

func TestImportInspect(t *testing.T) {
	t.Parallel()
	sample := `{"id":"q1","epoch":2,"output":{"model":"m"},"attachments":{"ab":"long text"},"events":[{"event":"model"},{"event":"tool","id":"1","function":"read","arguments":{"path":"attachment://ab"},"result":"attachment://ab"},{"event":"tool","id":"2","function":"write","arguments":{},"result":"","error":{"type":"permission","message":"denied"}}]}`
	for _, method := range []uint16{zip.Deflate, zstd.ZipMethodWinZip} {
		log := inspectLog(t, method, map[string]string{
			"header.json": "{}", "samples/q1_epoch_2.json": sample, "samples/bad_epoch_1.json": "{",
			"samples/bomb_epoch_1.json": `{"x":"` + strings.Repeat("a", 50_000) + `"}`,
		})
		episodes, report, err := importText(t, "log.eval", log, trace.Options{MaxRecord: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		want := []call{
			{Tool: "read", Args: `{"path":"long text"}`, Answer: "long text"},
			{Tool: "write", Args: `{}`, Answer: "Error: denied", Failed: "true"},
		}
		if d := cmp.Diff(want, calls(episodes[0])); d != "" {
			t.Errorf("method %d (-want +got):\n%s", method, d)
		}
		if episodes[0].ID != "q1/2" || report.Calls != 2 || len(report.Skipped) != 2 {
			t.Errorf("method %d: episode %s, report %s; want q1/2, and the broken and the huge sample skipped", method, episodes[0].ID, report)
		}
	}
	if _, _, err := importText(t, "cut.eval", inspectLog(t, zip.Deflate, map[string]string{"samples/a.json": sample})[:60], trace.Options{}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("a cut zip: %v", err)
	}
}
