package audit_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"understudy/audit"
)

func TestWhatThePolicyWroteSurvivesAMessage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"a":1}`, `{"a":`, "", `"x"`, "\x00", "\xff\xfe", `{"a":"` + "\xff" + `"}`, `[1,]`, `{"a":1,"a":2}`} {
		in := audit.Action{
			Call:      audit.Call{Tool: "t", Arguments: json.RawMessage(text)},
			Rehearsal: &audit.Rehearsal{Raw: []byte(text), StateDelta: json.RawMessage(text)},
		}
		wire, err := json.Marshal(in)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var out audit.Action
		if err := json.Unmarshal(wire, &out); err != nil {
			t.Errorf("%q: %v from %s", text, err, wire)
			continue
		}
		if !bytes.Equal(out.Call.Arguments, in.Call.Arguments) || !bytes.Equal(out.Rehearsal.StateDelta, in.Rehearsal.StateDelta) ||
			!bytes.Equal(out.Rehearsal.Raw, in.Rehearsal.Raw) {
			t.Errorf("%q came back as %q, %q, %q", text, out.Call.Arguments, out.Rehearsal.StateDelta, out.Rehearsal.Raw)
		}
	}
}
