package envace

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"understudy/audit"
)

// Fault says how the text of an output breaks its role's contract. What can be read
// is kept whatever the fault: a broken answer is judged, not dropped.
type Fault string

// The closed list of faults.
const (
	FaultNone      Fault = ""
	FaultEmpty     Fault = "empty"     // nothing but white space or thinking
	FaultUntagged  Fault = "untagged"  // no <execution_result>: the whole text is the answer
	FaultUnclosed  Fault = "unclosed"  // the closing tag is missing, as in a truncated answer
	FaultSeveral   Fault = "several"   // more than one answer, of which the first counts; or calls in one block
	FaultMalformed Fault = "malformed" // the answer is no JSON, or a call cannot be read
	// FaultDoubleEncoded says that a call's arguments are JSON inside a text.
	FaultDoubleEncoded Fault = "double_encoded"
)

// The tags of the contract.
const (
	resultTag     = "execution_result"
	deltaTag      = "state_delta"
	confidenceTag = "confidence"
)

// ParseRehearsal reads the text of a REHEARSE output: the answer's bytes, the
// optional state delta and the stated confidence. It is tolerant in what it
// reads and exact in what it reports. Thinking before the answer is dropped:
// tags inside it are no answer.
func ParseRehearsal(text string) (audit.Rehearsal, Fault) {
	body := dropThinking(text)
	answer, rest, fault := cutTag(body, resultTag)
	if fault == FaultUntagged {
		answer, rest = withoutTag(withoutTag(body, deltaTag), confidenceTag), body
	}
	answer = strings.TrimSpace(answer)
	if fault == FaultNone && strings.Contains(rest, "<"+resultTag+">") {
		fault = FaultSeveral
	}
	r := audit.Rehearsal{Raw: []byte(answer), Confidence: statedConfidence(rest)}
	if delta, _, f := cutTag(rest, deltaTag); f == FaultNone {
		if delta := bytes.TrimSpace([]byte(delta)); json.Valid(delta) {
			r.StateDelta = delta
		}
	}
	switch {
	case answer == "":
		fault = FaultEmpty
	case fault == FaultNone && !json.Valid(r.Raw):
		fault = FaultMalformed
	}
	return r, fault
}

// RehearsalText writes an answer, and its state delta unless that is empty, as
// ParseRehearsal reads them.
func RehearsalText(raw, delta []byte) string {
	text := tagged(resultTag, raw)
	if len(delta) > 0 {
		text += "\n" + tagged(deltaTag, delta)
	}
	return text
}

func tagged(tag string, inside []byte) string {
	return "<" + tag + ">\n" + string(inside) + "\n</" + tag + ">"
}

const endOfThinking = "</think>"

// AfterThinking is what stands after the end of a model's thinking; of a text without
// that end it is all.
func AfterThinking(text string) string {
	if i := strings.LastIndex(text, endOfThinking); i >= 0 {
		return text[i+len(endOfThinking):]
	}
	return text
}

// dropThinking is AfterThinking, but without a thinking that never ended.
func dropThinking(text string) string {
	if strings.Contains(text, endOfThinking) {
		return AfterThinking(text)
	}
	if before, _, found := strings.Cut(text, "<think>"); found {
		return before
	}
	return text
}

// cutTag returns the inside of the first <tag>…</tag> and all the text around it.
func cutTag(text, tag string) (inside, rest string, fault Fault) {
	before, after, found := strings.Cut(text, "<"+tag+">")
	if !found {
		return "", text, FaultUntagged
	}
	inside, tail, closed := strings.Cut(after, "</"+tag+">")
	if !closed {
		return inside, before, FaultUnclosed
	}
	return inside, before + tail, FaultNone
}

func withoutTag(text, tag string) string {
	if _, rest, fault := cutTag(text, tag); fault == FaultNone {
		return rest
	}
	return text
}

// statedConfidence is the number of a <confidence> block, or nil when there is
// none that is a probability; percentages are understood.
func statedConfidence(text string) *float64 {
	inside, _, fault := cutTag(text, confidenceTag)
	if fault != FaultNone {
		return nil
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(inside), "%")
	p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		p /= 100
	}
	if err != nil || math.IsNaN(p) || p < 0 || p > 1 {
		return nil
	}
	return &p
}
