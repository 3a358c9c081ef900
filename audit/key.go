package audit

import (
	"crypto/sha256"
	"encoding/json"
	"strconv"

	"understudy/audit/diff"
)

// Identity is what a pair's key is made of: what is audited, and nothing of who
// audits it, where or when (design.md 7).
type Identity struct {
	Policy      Digest // name, checkpoint and wire API of the policy
	Prompt      Digest // prompt group and messages
	Initial     Digest // initial state
	History     Digest // earlier calls
	Action      Digest // the call
	Mode        Mode
	Environment string
	Version     Digest // of the environment
	Rules       Digest
	Episode     string // the rollout among those of its prompt
	Sample      int    // the rehearsal among those of its action
	Probe       int    // the probe among those of its write
}

// Key is SHA-256 of the identity's canonical JSON: members in alphabetical
// order, no white space, digests in hexadecimal.
func (id Identity) Key() Digest {
	b := make([]byte, 0, 768)
	b = append(b, `{"action":"`...)
	b = append(b, id.Action.String()...)
	b = append(b, `","environment":`...)
	b = appendJSONString(b, id.Environment)
	b = append(b, `,"environment_digest":"`...)
	b = append(b, id.Version.String()...)
	b = append(b, `","history":"`...)
	b = append(b, id.History.String()...)
	b = append(b, `","initial_state":"`...)
	b = append(b, id.Initial.String()...)
	b = append(b, `","mode":`...)
	b = appendJSONString(b, string(id.Mode))
	b = append(b, `,"policy":"`...)
	b = append(b, id.Policy.String()...)
	b = append(b, `","probe":`...)
	b = strconv.AppendInt(b, int64(id.Probe), 10)
	b = append(b, `,"prompt":"`...)
	b = append(b, id.Prompt.String()...)
	b = append(b, `","rollout":`...)
	b = appendJSONString(b, id.Episode)
	b = append(b, `,"rules":"`...)
	b = append(b, id.Rules.String()...)
	b = append(b, `","sample":`...)
	b = strconv.AppendInt(b, int64(id.Sample), 10)
	b = append(b, '}')
	return sha256.Sum256(b)
}

// CallDigest identifies a call: tool, role and arguments, these by value where
// they are JSON ({"a":1} and { "a": 1.0 } are one), else by their bytes.
func CallDigest(call Call) Digest {
	b := make([]byte, 0, 128)
	b = appendSized(b, call.Tool)
	b = appendSized(b, call.Role)
	if arguments, err := diff.Decode(call.Arguments, diff.Limits{}); err == nil {
		hash := diff.Hash(arguments)
		b = append(append(b, 'v'), hash[:]...)
		return sha256.Sum256(b)
	}
	hash := sha256.Sum256(call.Arguments)
	b = append(append(b, 'r'), hash[:]...)
	return sha256.Sum256(b)
}

// extend is the history digest after one more call.
func extend(history, call Digest) Digest {
	var b [2 * len(history)]byte
	copy(b[:], history[:])
	copy(b[len(history):], call[:])
	return sha256.Sum256(b[:])
}

// policyDigest identifies the weights and the wire they were asked through: the
// same weights answer differently over another API or template.
func policyDigest(ep *Episode) Digest {
	b := appendSized(nil, ep.Policy)
	b = appendSized(b, ep.WireAPI)
	return sha256.Sum256(strconv.AppendInt(b, ep.Checkpoint, 10))
}

func promptDigest(ep *Episode, prompt []byte) Digest {
	b := appendSized(make([]byte, 0, 64+len(prompt)), ep.PromptGroup)
	return sha256.Sum256(append(b, prompt...))
}

// startDigest identifies the initial state by how it is made. The clock in it is
// the world's, never the auditor's.
func startDigest(start Start) (Digest, error) {
	if len(start.State) > 0 {
		if state, err := diff.Decode(start.State, diff.Limits{Bytes: 1 << 30, Leaves: 1 << 26}); err == nil {
			start.State = state.JSON()
		} else {
			start.State, _ = json.Marshal(string(start.State))
		}
	}
	if !start.Clock.IsZero() {
		start.Clock = start.Clock.UTC()
	}
	text, err := json.Marshal(start)
	if err != nil {
		return Digest{}, &Error{Code: CodeInvalid, Message: "start of the episode", Hint: "the clock must lie in the years 0 to 9999", Err: err}
	}
	return sha256.Sum256(text), nil
}

// appendSized appends a text with its length, so that no two lists of texts
// have one spelling.
func appendSized(b []byte, text string) []byte {
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, ':')
	return append(b, text...)
}

func appendJSONString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string always marshals
	return append(b, text...)
}

func itoa(n int) string { return strconv.Itoa(n) }
