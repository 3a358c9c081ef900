package trace_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"understudy/audit/trace"
)

// TestHugeEpisode answers 200,000 parallel calls last one first: the time must not
// be quadratic, and each answer must find its call.
func TestHugeEpisode(t *testing.T) {
	const n = 200_000
	var b strings.Builder
	b.WriteString(`{"messages":[{"role":"assistant","tool_calls":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"c%d","function":{"name":"f","arguments":"{}"}}`, i)
	}
	b.WriteString(`]}`)
	for i := range n {
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"c%d","content":"%d"}`, n-1-i, n-1-i)
	}
	b.WriteString("]}\n")
	// A scan of all calls for each answer would take hours.
	episodes, report, err := importText(t, "huge.jsonl", b.String(), trace.Options{})
	if err != nil || report.Calls != n || len(report.Skipped) > 0 {
		t.Fatalf("%v, %v", report, err)
	}
	for i, a := range episodes[0].Actions {
		if string(a.Rehearsal.Raw) != strconv.Itoa(i) {
			t.Fatalf("call %d has the answer %s", i, a.Rehearsal.Raw)
		}
	}
}

// TestAttachmentBomb is a sample of 1 MB whose arguments name one attachment ten
// thousand times: 5 GB if each were put in its place.
func TestAttachmentBomb(t *testing.T) {
	refs := strings.Repeat(`"attachment://a",`, 10_000) + `0`
	sample := `{"id":"s","events":[{"event":"tool","id":"1","function":"f","arguments":{"l":[` + refs + `]},"result":"attachment://a"}],` +
		`"attachments":{"a":"` + strings.Repeat("x", 500_000) + `"}}`
	var file bytes.Buffer
	archive := zip.NewWriter(&file)
	entry, err := archive.Create("samples/1.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write([]byte(sample)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	episodes, report, err := importText(t, "bomb.eval", file.String(), trace.Options{MaxRecord: 4 << 20})
	if err != nil || report.Calls != 1 {
		t.Fatalf("%v, %v", report, err)
	}
	if n := len(episodes[0].Actions[0].Call.Arguments); n > 16<<20 {
		t.Errorf("the arguments are %d bytes long", n)
	}
}

// TestArrayElementOverTheLimit holds the limit for a file that is one array, too.
func TestArrayElementOverTheLimit(t *testing.T) {
	small := `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}]}`
	text := "[" + small + `,{"messages":"` + strings.Repeat("x", 4<<20) + `"}]`
	_, report, err := importText(t, "array.json", text, trace.Options{MaxRecord: 1 << 16})
	if err != nil || report.Calls != 1 || !strings.Contains(report.String(), "size limit") {
		t.Errorf("%v, %v; want the first element, and a record over the size limit", report, err)
	}
}
