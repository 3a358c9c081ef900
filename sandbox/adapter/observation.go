package adapter

import (
	"encoding/json"

	"understudy/audit"
	"understudy/audit/diff"
)

// Invalid is the observation of a call that never reached the environment:
// nothing changed, and that is known exactly.
func Invalid(family audit.Family, message string) *audit.Observation {
	return &audit.Observation{
		Status: audit.StatusInvalid, Raw: envelope(family, message),
		Error:    &audit.CallError{Family: family, Message: message},
		Evidence: audit.EvidenceExact, Delta: diff.Patch{},
	}
}

// Fault is the observation of a call that the sandbox could not carry through.
// Status says whether it may have happened (unknown) or not (fault).
func Fault(status audit.Status, message string) audit.Observation {
	return audit.Observation{
		Status: status, Raw: []byte{}, Evidence: audit.EvidenceNone,
		Error: &audit.CallError{Family: audit.Internal, Message: message},
	}
}

func envelope(family audit.Family, message string) []byte {
	text, err := json.Marshal(map[string]any{"error": map[string]any{"code": family, "message": message}})
	if err != nil {
		panic(err) // two strings always encode
	}
	return text
}
