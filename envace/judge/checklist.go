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
	// Reference is what of the reference conversation it was derived from, for the
	// judge to see what is meant; nothing need be said in the same words.
	Reference []string `json:"-"`
}

// Checklist is what a conversation is graded by: the items of each user turn.
type Checklist [][]Item

// InOrder puts the items of a turn so that what they depend on comes first, and
// leaves them in their order otherwise. Items that depend on each other stay where
// they are, for [Checklist.Validate] to refuse.
func InOrder(items []Item) []Item {
	ordered := make([]Item, 0, len(items))
	placed := map[string]bool{}
	of := map[string]bool{}
	for _, item := range items {
		of[item.ID] = true
	}
	ready := func(item Item) bool {
		return !slices.ContainsFunc(item.Dependence, func(on string) bool { return of[on] && !placed[on] })
	}
	left := slices.Clone(items)
	for len(left) > 0 {
		next := max(slices.IndexFunc(left, ready), 0)
		placed[left[next].ID] = true
		ordered = append(ordered, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return ordered
}

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
