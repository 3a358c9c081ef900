package cm2

import (
	"encoding/json"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/judge"
)

// Sample is one conversation to train on.
type Sample struct {
	Task      audit.Task // its id, and what the user says first
	Told      string     // the system text, as far as there is one
	Tools     []audit.Tool
	Users     []string // what the user says after that, whatever the agent does
	Items     []envace.Item
	Turns     []audit.Turn // the calls of Items with the recorded answers
	Checklist judge.Checklist
}

// record is a row in either layout.
type record struct {
	UUID       string          `json:"uuid"`
	Messages   []message       `json:"messages"`
	Tools      json.RawMessage `json:"tools"`
	Checklists [][][]criterion `json:"checklists"`
	Extra      *extra          `json:"extra_info"`
}

type extra struct {
	Index    json.RawMessage `json:"original_index"` // a text or a number
	Messages []message       `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Kwargs   struct {
		Checklists [][][]criterion `json:"checklist_list"`
	} `json:"interaction_kwargs"`
}

type message struct {
	Role    string        `json:"role"`
	Content *string       `json:"content"`
	Calls   []writtenCall `json:"tool_calls"`
	CallID  string        `json:"tool_call_id"`
}

type writtenCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // an object, or one inside a text
	} `json:"function"`
}

// criterion is a checklist's item with what it was derived from.
type criterion struct {
	judge.Item
	Evidence []struct {
		Snippet string `json:"snippet"`
	} `json:"evidence"`
}

// flat is the row in one layout.
func (r *record) flat() {
	if r.Extra == nil {
		return
	}
	if len(r.Extra.Messages) > 0 {
		r.Messages = r.Extra.Messages
	}
	if len(r.Extra.Tools) > 0 {
		r.Tools = r.Extra.Tools
	}
	if len(r.Checklists) == 0 {
		r.Checklists = r.Extra.Kwargs.Checklists
	}
	if r.UUID == "" {
		r.UUID = identifier(r.Extra.Index)
	}
}

// identifier is a text, or a number as a text.
func identifier(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}
