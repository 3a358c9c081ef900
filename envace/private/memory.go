package private

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace"
)

// Detail is how much of an attempt a memory tells.
type Detail int

// The details, each less than the one before.
const (
	Whole   Detail = iota // every call with its answer
	Calls                 // every call with ok or its error family
	Verdict               // what was held of it
	dropped               // nothing
)

// Memory says how attempts become a text under a cap.
type Memory struct {
	Most  int                   // tokens at most; 0 = 2000
	Count func(text string) int // tokens of a text, as the policy's tokenizer has them
	Rules *audit.Rules          // by which answers are read
	// Write tells one attempt, its number from 1; nil = WriteText.
	Write func(m Memory, number int, a Attempt, d Detail) (string, error)
}

// defaultMemory leaves five sixths of the paper's prompt to the task itself.
const defaultMemory = 2000

// compress tells the attempts, best first. Until it fits, the attempt that was held
// of least is told in less detail, in the end not at all.
func (m Memory) compress(attempts []Attempt) (string, int, error) {
	order := make([]int, len(attempts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(attempts[b].Assessment.Score, attempts[a].Assessment.Score)
	})
	most, details := cmp.Or(m.Most, defaultMemory), make([]Detail, len(attempts))
	for {
		text, err := m.tell(attempts, order, details)
		if err != nil {
			return "", 0, err
		}
		tokens := m.Count(text)
		if tokens <= most || text == "" {
			return text, tokens, nil
		}
		for _, i := range slices.Backward(order) {
			if details[i] < dropped {
				details[i]++
				break
			}
		}
	}
}

func (m Memory) tell(attempts []Attempt, order []int, details []Detail) (string, error) {
	write := m.Write
	if write == nil {
		write = WriteText
	}
	var parts []string
	for _, i := range order {
		if details[i] == dropped {
			continue
		}
		text, err := write(m, i+1, attempts[i], details[i])
		if err != nil {
			return "", fmt.Errorf("write attempt %d into the memory: %w", i+1, err)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n"), nil
}

// WriteText tells an attempt in plain words and JSON lines.
func WriteText(m Memory, number int, a Attempt, d Detail) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Attempt %d:\n", number)
	switch d {
	case Whole:
		lines, err := envace.Narrate(a.Trajectory.Items, false)
		if err != nil {
			return "", err
		}
		b.WriteString(lines)
	case Calls:
		for _, answer := range a.Trajectory.Calls() {
			text, err := envace.CallText(answer.Call)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%s → %s\n", text, m.outcome(answer))
		}
	case Verdict, dropped:
	}
	v := a.Assessment
	switch {
	case v.Unknown:
		b.WriteString("How it would have gone is not known.")
	case v.Success:
		b.WriteString("It would have done the task.")
	default:
		fmt.Fprintf(&b, "It would not have done the task (%.0f %% of it).", 100*v.Score)
	}
	for _, text := range []string{v.Text, v.Revision} {
		if text != "" {
			b.WriteString(" " + text)
		}
	}
	return b.String() + "\n", nil
}

// outcome is ok, or the family of the error.
func (m Memory) outcome(a *envace.Answer) string {
	read := m.Rules.Of(a.Call.Tool).Read(a.Raw).Outcome
	if read.Class == audit.Failed {
		return string(read.Family)
	}
	return "ok"
}
