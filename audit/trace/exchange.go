package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"understudy/audit"
)

// exchange is one tool call with its recorded answer, before it is known
// whether that answer is a rehearsal or a real one.
type exchange struct {
	id        string
	step      int    // as the source numbers it, where trajectory.stepped
	role      string // assistant or user
	tool      string
	arguments json.RawMessage
	answer    []byte // nil = none was recorded
	answered  bool
	failed    *bool
	truncated bool
	message   int // calls of one message share it
	logProbs  []float32
	tokens    []int32
}

// trajectory is what a format's reader hands over: one rollout.
type trajectory struct {
	id          string
	group       string // prompt group; "" = the trajectory is its own
	policy      string
	environment string
	wireAPI     string
	start       audit.Start
	success     *bool
	line        int
	stepped     bool // the source numbers its steps: a gap is a missing action, to be masked
	exchanges   []exchange

	messages     int  // tool-calling messages so far
	answeredLast bool // the last event was an answer: the next call starts a message

	waiting map[string][]int // unanswered calls by their id, the first one first
	first   int              // no call before it is unanswered
}

// call appends a tool call. Calls with no answer between them were made in one
// message.
func (t *trajectory) call(e exchange) {
	if t.answeredLast {
		t.messages++
	}
	t.answeredLast = e.answered
	e.message = t.messages
	if !e.answered && e.id != "" {
		if t.waiting == nil {
			t.waiting = map[string][]int{}
		}
		t.waiting[e.id] = append(t.waiting[e.id], len(t.exchanges))
	}
	t.exchanges = append(t.exchanges, e)
}

// answer gives the first unanswered call with that id its answer; without an
// id, the first unanswered one. Ids repeat in real files, and parallel answers
// come in any order. It reports whether a call was waiting.
func (t *trajectory) answer(id string, raw []byte, failed *bool) bool {
	e := t.unanswered(id)
	if e == nil {
		return false
	}
	e.answer, e.answered, e.failed = raw, true, failed
	t.answeredLast = true
	return true
}

// unanswered finds the call that an answer belongs to, without a look at those
// that are answered: an episode may have a million.
func (t *trajectory) unanswered(id string) *exchange {
	if id == "" {
		for ; t.first < len(t.exchanges); t.first++ {
			if e := &t.exchanges[t.first]; !e.answered {
				return e
			}
		}
		return nil
	}
	for queue := t.waiting[id]; len(queue) > 0; queue = t.waiting[id] {
		i := queue[0]
		t.waiting[id] = queue[1:]
		if i < len(t.exchanges) && !t.exchanges[i].answered && t.exchanges[i].id == id {
			return &t.exchanges[i]
		}
	}
	return nil
}

const (
	reasonNoCalls    = "episode without tool calls"
	reasonNoAnswer   = "call without a recorded answer"
	reasonNoCall     = "answer without a call"
	reasonNoName     = "call without a tool name"
	reasonCallText   = "call text that does not parse"
	reasonNotAnswers = "not a trajectory record"
)

// emit turns a trajectory into an episode. A call without an answer stays in
// the episode, because later calls may need its effect; it is counted, and
// audited only if a rehearser answers it.
func (s *sink) emit(t trajectory) {
	if s.err != nil {
		return
	}
	kept := t.exchanges[:0:0]
	for _, e := range t.exchanges {
		if e.tool == "" {
			s.skip(reasonNoName, 1, t.line)
			continue
		}
		kept = append(kept, e)
	}
	if len(kept) == 0 {
		s.skip(reasonNoCalls, 1, t.line)
		return
	}
	id := cmp.Or(t.id, baseName(s.file)+"-"+strconv.Itoa(s.out.Episodes))
	episode := audit.Episode{
		ID: id, PromptGroup: cmp.Or(t.group, id),
		Policy:  cmp.Or(s.opts.Policy, t.policy, baseName(s.file)),
		WireAPI: cmp.Or(t.wireAPI, "recorded"), Environment: cmp.Or(s.opts.Environment, t.environment),
		Start: t.start, Mode: cmp.Or(s.opts.Mode, audit.Open), Success: t.success,
		Source:  &audit.Source{Format: s.format, File: s.file, Line: t.line},
		Actions: make([]audit.Action, len(kept)),
	}
	for i, e := range kept {
		if !e.answered {
			s.skip(reasonNoAnswer, 1, t.line)
		}
		step := i
		if t.stepped {
			step = e.step
		}
		episode.Actions[i] = s.action(step, e)
	}
	s.out.Episodes++
	s.out.Calls += len(kept)
	s.err = s.yield(episode)
}

func (s *sink) action(step int, e exchange) audit.Action {
	action := audit.Action{
		Step: step, CallID: e.id, Message: e.message,
		Call: audit.Call{Tool: e.tool, Arguments: arguments(e.arguments), Role: cmp.Or(e.role, "assistant")},
	}
	if !e.answered {
		return action
	}
	answers := cmp.Or(s.opts.Answers, AsRehearsal)
	if answers != AsReal {
		action.Rehearsal = &audit.Rehearsal{
			Raw: e.answer, Failed: e.failed, Truncated: e.truncated, Tokens: e.tokens, LogProbs: e.logProbs,
		}
	}
	if answers != AsRehearsal {
		action.Recorded = &audit.Recorded{Raw: e.answer, Failed: e.failed}
	}
	return action
}

// arguments unwraps arguments that a format holds as a JSON string. Text that
// is no JSON stays as it was written: a malformed call is a fact to audit.
func arguments(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	if raw[0] != '"' {
		return raw
	}
	var inner string
	if json.Unmarshal(raw, &inner) != nil {
		return raw
	}
	if len(bytes.TrimSpace([]byte(inner))) == 0 {
		return json.RawMessage("{}")
	}
	return json.RawMessage(inner)
}

// text is the value of a JSON string, or "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// content is the bytes that the agent saw: a JSON string's value, the joined
// text of content parts, or any other JSON as it stands. Absent and null are
// the empty answer.
func content(raw json.RawMessage) []byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return []byte{}
	}
	if raw[0] == '"' {
		return []byte(text(raw))
	}
	if parts, ok := textParts(raw); ok {
		return parts
	}
	return raw
}

// textParts joins OpenAI-style content parts ({"type":"text","text":…}).
func textParts(raw json.RawMessage) ([]byte, bool) {
	if raw[0] != '[' {
		return nil, false
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return nil, false
	}
	var joined []byte
	for _, part := range parts {
		if part.Text == nil || part.Type != "" && part.Type != "text" && part.Type != "output_text" && part.Type != "input_text" {
			return nil, false
		}
		joined = append(joined, *part.Text...)
	}
	return joined, true
}

// identifier is a JSON string or number as text; formats disagree on which.
func identifier(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if s := text(raw); s != "" {
		return s
	}
	return string(bytes.Trim(raw, `"`))
}

// rollout names the nth rollout of a prompt.
func rollout(group string, n any) string { return fmt.Sprintf("%s/%v", group, n) }
