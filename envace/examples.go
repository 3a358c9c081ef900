package envace

import (
	"slices"

	"understudy/audit"
)

// Examples are recorded calls with real answers, from which REHEARSE is shown a few
// of the same tool. A task is never shown what was recorded of itself: the answers
// that it is about to give would be among them (facts/envace.md, trap 8).
type Examples struct {
	most   int
	future bool
	byTool map[string][]example
	byTask map[string][]audit.Turn
}

type example struct {
	task string
	turn audit.Turn
}

// NewExamples shows at most so many of the turns, which are by task. With future, a
// task is shown all that was recorded of itself instead, later turns included, as
// the published code does.
func NewExamples(turns map[string][]audit.Turn, most int, future bool) *Examples {
	e := &Examples{most: most, future: future, byTool: map[string][]example{}, byTask: turns}
	tasks := make([]string, 0, len(turns))
	for task := range turns {
		tasks = append(tasks, task)
	}
	slices.Sort(tasks)
	for _, task := range tasks {
		for _, turn := range turns[task] {
			e.byTool[turn.Call.Tool] = append(e.byTool[turn.Call.Tool], example{task, turn})
		}
	}
	return e
}

// Of are the examples for a call of a tool in a task; nil has none.
func (e *Examples) Of(task, tool string) []audit.Turn {
	switch {
	case e == nil:
		return nil
	case e.future:
		return e.byTask[task]
	}
	var turns []audit.Turn
	for _, one := range e.byTool[tool] {
		if len(turns) == e.most {
			break
		}
		if one.task != task {
			turns = append(turns, one.turn)
		}
	}
	return turns
}
