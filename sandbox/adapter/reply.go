package adapter

import (
	"encoding/json"

	"understudy/audit"
	"understudy/audit/diff"
)

// Effect is what a server that can tell says of a call's change.
type Effect struct {
	Delta         diff.Patch
	Before, After audit.Digest
}

// MaxAnswer is the largest answer that is kept, in bytes: the limit of the whole
// program. A larger one is cut one byte behind it, which every reader then finds
// to be oversize; what it really was is in nobody's memory.
const MaxAnswer = 1 << 20

// MaxTransfer is the largest answer that is read at all, in bytes. What goes on
// behind it is an attack, and costs the episode.
const MaxTransfer = 16 << 20

// Cut bounds an answer.
func Cut(raw []byte) []byte {
	if len(raw) > MaxAnswer+1 {
		return append([]byte(nil), raw[:MaxAnswer+1]...) // let the large array go
	}
	return raw
}

// Answered is the reply for an answer whose text alone says what happened:
// {"error": ...}, success false, "Error: ...", an MCP result within the text. The
// status of a protocol is not to be trusted: servers report errors as successes.
func Answered(rules *audit.ToolRules, raw []byte) Reply {
	raw = Cut(raw)
	a := rules.Read(raw)
	if !a.Valid || !a.Outcome.IsError() {
		return Reply{Status: audit.StatusOK, Raw: raw}
	}
	return Failed(raw, a.Outcome.Family, a.Message, nil)
}

// Failed is the reply for an error of a known family. What only says that the
// environment broke or was busy is no answer to the call: it is a fault.
func Failed(raw []byte, family audit.Family, message string, details json.RawMessage) Reply {
	r := Reply{Status: audit.StatusRefused, Raw: Cut(raw), Error: &audit.CallError{Family: family, Message: message, Details: details}}
	switch family {
	case audit.MalformedCall, audit.UnknownTool, audit.SchemaInvalid:
		r.Status = audit.StatusInvalid
	case audit.Transient, audit.Internal, audit.Unparseable:
		r.Status = audit.StatusFault
	case audit.Authentication, audit.Authorization, audit.NotFound, audit.Conflict, audit.Precondition, audit.Limit:
	}
	return r
}
