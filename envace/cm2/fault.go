package cm2

import (
	"bytes"
	"fmt"
	"strings"

	"understudy/audit"
)

// Fault is what is wrong with one row.
type Fault struct {
	Row  int    // from 1
	Line int    // of the file, where the row begins
	ID   string // as far as it is known
	Text string // what is wrong
	Hint string // what to do about it
}

// String says everything of it in a line.
func (f Fault) String() string {
	name := ""
	if f.ID != "" {
		name = " (" + f.ID + ")"
	}
	return fmt.Sprintf("line %d, row %d%s: %s; %s", f.Line, f.Row, name, f.Text, f.Hint)
}

// shownFaults is how many faults an error names.
const shownFaults = 10

// Refusal is the error for a file whose rows have faults; nil without any.
func Refusal(name string, faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	lines := make([]string, 0, shownFaults+1)
	for _, f := range faults[:min(len(faults), shownFaults)] {
		lines = append(lines, f.String())
	}
	if more := len(faults) - shownFaults; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return &audit.Error{
		Code: audit.CodeUnprocessable, Message: fmt.Sprintf("%d rows of %s cannot be used:\n  %s", len(faults), name, strings.Join(lines, "\n  ")),
		Hint: "correct them, or leave them out with --skip-bad-rows",
	}
}

// lineAt is the line of an offset, from 1.
func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }
