package audit

import (
	"encoding/json"
	"unicode/utf8"
)

// What a policy wrote may be no JSON at all, and must survive every message and
// every store byte for byte. Calls and rehearsals therefore carry such text
// beside its field, as base64, in a member that is there only then.

// MarshalJSON writes malformed arguments as base64 in malformed_arguments.
func (c Call) MarshalJSON() ([]byte, error) {
	type plain Call
	w := struct {
		plain
		Malformed []byte `json:"malformed_arguments,omitempty"`
	}{plain: plain(c)}
	w.Arguments, w.Malformed = splitJSON(c.Arguments)
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Call) UnmarshalJSON(text []byte) error {
	type plain Call
	w := struct {
		*plain
		Malformed []byte `json:"malformed_arguments"`
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if w.Malformed != nil {
		c.Arguments = w.Malformed
	}
	return nil
}

// MarshalJSON writes a malformed state delta as base64 in malformed_state_delta.
func (r Rehearsal) MarshalJSON() ([]byte, error) {
	type plain Rehearsal
	w := struct {
		plain
		Malformed []byte `json:"malformed_state_delta,omitempty"`
	}{plain: plain(r)}
	w.StateDelta, w.Malformed = splitJSON(r.StateDelta)
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Rehearsal) UnmarshalJSON(text []byte) error {
	type plain Rehearsal
	w := struct {
		*plain
		Malformed []byte `json:"malformed_state_delta"`
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if w.Malformed != nil {
		r.StateDelta = w.Malformed
	}
	return nil
}

// splitJSON sorts a text into JSON or something else. Empty arguments are JSON
// null on the wire, for a raw message cannot be empty.
func splitJSON(text json.RawMessage) (valid json.RawMessage, malformed []byte) {
	switch {
	case len(text) == 0:
		return nil, nil
	case json.Valid(text) && utf8.Valid(text):
		return text, nil
	default:
		return nil, text
	}
}
