package envace

import (
	"bytes"
	"encoding/json"
	"strings"

	"understudy/audit"
	"understudy/gpu/chat"
)

// Block is one <tool_call> block of an ACT text that is not exactly one well-formed
// call. It is read apart: a bad block does not spoil the others.
type Block struct {
	Fault Fault
	Text  string // between the tags, as it was written
	Calls int    // that could be read of it all the same
}

// ParseAct reads the text of an ACT output: calls, or a reply to the user. A
// mention of a call inside the thinking is no call. It is tolerant in what it
// reads (several calls in one block, arguments inside a string, "parameters" for
// "arguments") and exact in what it reports: each deviation is a Block.
//
//	no block                     a reply, no fault; FaultEmpty when there is none
//	no JSON, no name             FaultMalformed: no call is made of the block
//	arguments that are no object FaultMalformed: the call is made as it is, to be refused
//	the closing tag is missing   FaultUnclosed: the call counts only when it is whole
//	a list, or one after another FaultSeveral: every one counts, in order
//	arguments are JSON in a text FaultDoubleEncoded: they count, decoded
//
// Act.Fault is that of the first such block.
func ParseAct(text string) Act {
	template, err := chat.New(chat.Qwen3)
	if err != nil {
		panic(err) // a format of that package
	}
	read := template.Parse(text)
	act := Act{Thinking: read.Thinking, Reply: read.Content}
	for i, call := range read.Calls {
		act.readBlock(call.Text, read.Unfinished && i == len(read.Calls)-1)
	}
	switch {
	case len(act.Blocks) > 0:
		act.Fault = act.Blocks[0].Fault
	case read.Unfinished:
		act.Fault = FaultUnclosed // the thinking never ended
	case len(act.Calls) == 0 && act.Reply == "":
		act.Fault = FaultEmpty
	}
	return act
}

// Said is what the output says beside its calls: the reply, and the blocks that no call
// was made of, so that who reads the conversation sees what was written.
func (a *Act) Said() string {
	said := []string{a.Reply}
	for _, block := range a.Blocks {
		if block.Calls == 0 {
			said = append(said, "<tool_call>"+block.Text+"</tool_call>")
		}
	}
	return strings.TrimLeft(strings.Join(said, "\n"), "\n")
}

// readBlock adds the calls of one block, and the block itself when it deviates.
func (a *Act) readBlock(text string, unclosed bool) {
	calls, fault := blockCalls(text)
	if unclosed {
		fault = FaultUnclosed
	}
	a.Calls = append(a.Calls, calls...)
	if fault != FaultNone {
		a.Blocks = append(a.Blocks, Block{fault, text, len(calls)})
	}
}

// writtenCall is a call with the names that models give its parts.
type writtenCall struct {
	Name       string          `json:"name"`
	Arguments  json.RawMessage `json:"arguments"`
	Parameters json.RawMessage `json:"parameters"`
}

// blockCalls reads every call of a block, until something is no call.
func blockCalls(text string) ([]audit.Call, Fault) {
	var calls []audit.Call
	fault, values := FaultNone, 0
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			if rest := strings.TrimSpace(text[decoder.InputOffset():]); rest != "" || values == 0 {
				return calls, FaultMalformed
			}
			return calls, fault
		}
		list := []json.RawMessage{value}
		if value[0] == '[' {
			_ = json.Unmarshal(value, &list) // a list: it was decoded
			fault = worse(fault, FaultSeveral)
		}
		for _, one := range list {
			call, f := oneCall(one)
			if call.Tool != "" {
				calls = append(calls, call)
			}
			fault = worse(fault, f)
			values++
		}
		if values > 1 {
			fault = worse(fault, FaultSeveral)
		}
	}
}

// oneCall reads one call. Its arguments stay as they were written where they are no
// object, so that the world refuses them.
func oneCall(value json.RawMessage) (audit.Call, Fault) {
	var w writtenCall
	if json.Unmarshal(value, &w) != nil || w.Name == "" {
		return audit.Call{}, FaultMalformed
	}
	call := audit.Call{Tool: w.Name, Arguments: w.Arguments}
	if len(call.Arguments) == 0 {
		call.Arguments = w.Parameters
	}
	var inner string
	switch {
	case len(call.Arguments) == 0 || string(call.Arguments) == "null":
		call.Arguments = json.RawMessage("{}")
	case call.Arguments[0] == '{':
	case json.Unmarshal(call.Arguments, &inner) == nil:
		inner := bytes.TrimSpace([]byte(inner))
		if len(inner) == 0 {
			return call, FaultMalformed
		}
		call.Arguments = inner
		if inner[0] != '{' || !json.Valid(inner) {
			return call, FaultMalformed
		}
		return call, FaultDoubleEncoded
	default:
		return call, FaultMalformed
	}
	return call, FaultNone
}

// worse keeps the graver of two faults of one block.
func worse(a, b Fault) Fault {
	grave := map[Fault]int{FaultNone: 0, FaultDoubleEncoded: 1, FaultSeveral: 2, FaultMalformed: 3}
	if grave[b] > grave[a] {
		return b
	}
	return a
}
