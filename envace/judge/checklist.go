package judge

import (
	"errors"
	"fmt"
	"slices"
)

// Focus is the part of a turn that an item is about.
type Focus string

// The closed list of parts, named as CM2 names them.
const (
	FocusCalls    Focus = "assistant.tool_calls"
	FocusThinking Focus = "assistant.content.thinking"
	FocusReply    Focus = "assistant.content.user_visible_reply"
	FocusAnswer   Focus = "tool.content"
)

// Item is one criterion of a turn, in the form of CM2's checklists.
type Item struct {
	ID       string   `json:"id"`
	Question string   `json:"question"`
	Focus    Focus    `json:"focus_on"`
	Pass     string   `json:"pass_condition"`
	Failures []string `json:"failure_examples"`
	Weight   float64  `json:"weight"` // within its turn
	// Required items decide whether later turns count.
	Required bool `json:"required_for_next_turn"`
	// Dependence names items of this or an earlier turn without which this one cannot pass.
	Dependence []string `json:"dependence"`
}

// Checklist is what a conversation is graded by: the items of each user turn.
type Checklist [][]Item

// Validate lists every fault: dependences that do not exist or come later, weights
// that are not above 0, ids that are not unique.
func (c Checklist) Validate() error {
	var faults []error
	seen := map[string]bool{}
	if len(c) == 0 {
		faults = append(faults, errors.New("there are no turns"))
	}
	for turn, items := range c {
		if len(items) == 0 {
			faults = append(faults, fmt.Errorf("turn %d has no items", turn))
		}
		for _, item := range items {
			if item.ID == "" || seen[item.ID] {
				faults = append(faults, fmt.Errorf("turn %d: id %q is empty or used before", turn, item.ID))
			}
			if !(item.Weight > 0) {
				faults = append(faults, fmt.Errorf("item %s: weight %v is not above 0", item.ID, item.Weight))
			}
			if !slices.Contains([]Focus{FocusCalls, FocusThinking, FocusReply, FocusAnswer}, item.Focus) {
				faults = append(faults, fmt.Errorf("item %s: focus_on %q", item.ID, item.Focus))
			}
			for _, on := range item.Dependence {
				if !seen[on] {
					faults = append(faults, fmt.Errorf("item %s depends on %s, which does not come before it", item.ID, on))
				}
			}
			seen[item.ID] = true
		}
	}
	return errors.Join(faults...)
}
