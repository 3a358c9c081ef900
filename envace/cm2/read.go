package cm2

import (
	"encoding/json"
	"fmt"
	"io"

	"understudy/audit"
	"understudy/envace/judge"
)

// Read reads a file's rows, in order. A row with a fault is left out and named; err
// is for what cannot be read at all.
func Read(r io.Reader) (samples []Sample, faults []Fault, err error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, fmt.Errorf("read the conversations: %w", err)
	}
	rows, faults, err := split(data)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]int{}
	for i, row := range rows {
		sample, wrong := read(row.text)
		if first := seen[sample.Task.ID]; wrong == nil && first > 0 {
			wrong = &flaw{fmt.Sprintf("row %d has the same id", first), "give each conversation an id of its own"}
		}
		if wrong != nil {
			faults = append(faults, Fault{i + 1, lineAt(data, row.offset), sample.Task.ID, wrong.text, wrong.hint})
			continue
		}
		seen[sample.Task.ID] = i + 1
		samples = append(samples, sample)
	}
	return samples, faults, nil
}

// flaw is what is wrong with a row, and the remedy.
type flaw struct{ text, hint string }

// read makes a sample of one row.
func read(text json.RawMessage) (s Sample, wrong *flaw) {
	var row record
	if err := json.Unmarshal(text, &row); err != nil {
		return s, &flaw{"it has not the form of a conversation: " + err.Error(), "see the two layouts in go doc understudy/envace/cm2"}
	}
	row.flat()
	s.Task.ID = row.UUID
	if s.Task.ID == "" {
		return s, &flaw{"it has no id", "give it a uuid, or extra_info.original_index"}
	}
	if s.Tools, wrong = tools(row.Tools); wrong != nil {
		return s, wrong
	}
	if wrong = s.converse(row.Messages); wrong != nil {
		return s, wrong
	}
	return s, s.grade(row.Checklists)
}

// definition is a tool as OpenAI's API has it, wrapped or not.
type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Function    *definition     `json:"function"`
}

// tools reads the tool list, also one inside a text.
func tools(raw json.RawMessage) ([]audit.Tool, *flaw) {
	var inner string
	if json.Unmarshal(raw, &inner) == nil {
		raw = json.RawMessage(inner)
	}
	var list []definition
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, &flaw{"its tools are no list", "write them as OpenAI's API has them"}
	}
	var read []audit.Tool
	names := map[string]bool{}
	for i, d := range list {
		if d.Function != nil {
			d = *d.Function
		}
		var schema map[string]json.RawMessage
		switch {
		case d.Name == "" || names[d.Name]:
			return nil, &flaw{fmt.Sprintf("tool %d has the name %q, which is empty or used before", i+1, d.Name), "give each tool a name of its own"}
		case len(d.Parameters) > 0 && string(d.Parameters) != "null" && json.Unmarshal(d.Parameters, &schema) != nil:
			return nil, &flaw{"the parameters of tool " + d.Name + " are no JSON Schema object", `write {"type": "object", "properties": {...}}`}
		case schema == nil:
			d.Parameters = json.RawMessage(`{"type":"object"}`)
		}
		names[d.Name] = true
		read = append(read, audit.Tool{Name: d.Name, Description: d.Description, Input: d.Parameters, Effect: audit.UnknownEffect, Role: "assistant"})
	}
	if len(read) == 0 {
		return nil, &flaw{"it has no tools", "an agent without tools has nothing to rehearse: leave the row out"}
	}
	return read, nil
}

// grade takes the first checklist; later ones are other labellers' (max_num_checklist
// is 1 in the published code). CM2 numbers items within their turn; here an id says
// which turn it is of.
func (s *Sample) grade(all [][][]criterion) *flaw {
	if len(all) == 0 {
		return &flaw{"it has no checklist", "label it, as CM2's pipeline does"}
	}
	if turns := 1 + len(s.Users); len(all[0]) != turns {
		return &flaw{fmt.Sprintf("its checklist has %d turns, its user has %d", len(all[0]), turns), "label every turn of the user"}
	}
	for turn, items := range all[0] {
		name := func(id string) string { return fmt.Sprintf("%d.%s", turn+1, id) }
		list := make([]judge.Item, len(items))
		for i, c := range items {
			if c.ID != "" {
				c.ID = name(c.ID)
			}
			for j, on := range c.Dependence {
				c.Dependence[j] = name(on)
			}
			for _, e := range c.Evidence {
				c.Reference = append(c.Reference, e.Snippet)
			}
			list[i] = c.Item
		}
		s.Checklist = append(s.Checklist, judge.InOrder(list))
	}
	if err := s.Checklist.Validate(); err != nil {
		return &flaw{"its checklist is wrong: " + err.Error(), "correct the items"}
	}
	return nil
}
