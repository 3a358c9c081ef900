package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// UnmarshalJSON reads what MarshalJSON wrote. A member that it does not know is an
// error: a call without its misspelt arguments is another call.
func (c *Call) UnmarshalJSON(text []byte) error {
	type plain Call
	w := struct {
		*plain
		Malformed []byte `json:"malformed_arguments"`
	}{plain: (*plain)(c)}
	if err := DecodeStrict(text, &w); err != nil {
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

// DecodeStrict reads text that is one JSON value and nothing else. An unknown
// member is an error.
func DecodeStrict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows the value at byte %d", decoder.InputOffset())
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
