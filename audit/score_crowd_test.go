package audit_test

import (
	"runtime"
	"strings"
	"testing"

	"understudy/audit"
)

// TestCrowdedBatchesAreRefusedUnread sends lists of elements that cost two bytes
// each to send and hundreds to keep.
func TestCrowdedBatchesAreRefusedUnread(t *testing.T) {
	const many = 200_000
	list := "[" + strings.Repeat("{},", many) + "{}]"
	for _, row := range []struct{ text, reason string }{
		{`{"outputs":` + list + `}`, "outputs"},
		{`{"outputs":[{"history":` + list + `}]}`, "a history"},
		{`{"policy":"\"[{,\\","outputs":` + list + `}`, "after a string of brackets"},
		{`{"outputs":[{}],"outputs":` + list + `}`, "the second of two members with one name"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := audit.DecodeScoreBatch([]byte(row.text))
		runtime.ReadMemStats(&after)
		if audit.ErrorCode(err) != audit.CodeLimit {
			t.Errorf("%s: got %v, want it over a limit", row.reason, err)
		}
		if grew := after.TotalAlloc - before.TotalAlloc; grew > uint64(2*len(row.text)) {
			t.Errorf("%s: %d bytes were made of %d", row.reason, grew, len(row.text))
		}
	}
}

func TestFullBatchesAreRead(t *testing.T) {
	t.Parallel()
	text := `{"policy":"p","outputs":[` + strings.Repeat(`{"history":[],"call":{"tool":"t","arguments":[1,2,[3,[4,5]]]}},`, audit.MaxOutputs-1) +
		`{"history":[` + strings.Repeat(`{"call":{"tool":"a,b"}},`, 999) + `{"call":{"tool":"]"}}]}]}`
	batch, err := audit.DecodeScoreBatch([]byte(text))
	if err != nil || len(batch.Outputs) != audit.MaxOutputs || len(batch.Outputs[audit.MaxOutputs-1].History) != 1000 {
		t.Errorf("got %d outputs, %v", len(batch.Outputs), err)
	}
}
