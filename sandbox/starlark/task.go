package starlark

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// worldSeed generates the world of every session and the default task list:
// Start.Seed is of ids and randomness, so that a task means the same in all of them.
const worldSeed = 1

// taskList names a generated list of tasks. The zero value is the domain's own.
type taskList struct {
	seed uint64
	n    int
}

// task is a task with what the engine needs of it.
type task struct {
	audit.Task
	checks []checkCall
	world  uint64        // seed of the task's own world; 0 = the domain's
	state  *state.Object // the task's own world, spelled out; nil = generated
}

// checkCall is a terminal check with its parameters.
type checkCall struct {
	fn     starlark.Callable
	name   string
	params []starlark.Tuple
}

// suffix is what a task's id carries so that the id alone finds the list again.
func (l taskList) suffix() string {
	if l == (taskList{}) {
		return ""
	}
	return fmt.Sprintf("~%d.%d", l.seed, l.n)
}

// splitTask separates a task's id into its list and its place there.
func splitTask(id string) taskList {
	_, list, ok := strings.Cut(id, "~")
	if !ok {
		return taskList{}
	}
	seed, n, _ := strings.Cut(list, ".")
	var l taskList
	l.seed, _ = strconv.ParseUint(seed, 10, 64)
	l.n, _ = strconv.Atoi(n)
	return l
}

// findTask finds a task by its id.
func (d *Domain) findTask(ctx context.Context, id string) (*task, error) {
	tasks, err := d.taskList(ctx, splitTask(id))
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		if tasks[i].ID == id {
			return &tasks[i], nil
		}
	}
	return nil, &audit.Error{
		Code: audit.CodeNotFound, Message: fmt.Sprintf("domain %s has no task %q", d.Manifest.Name, id),
		Hint: fmt.Sprintf("list its %d tasks with: understudy sandbox tasks %s", len(tasks), d.Manifest.Name),
	}
}

// What making one task may use beyond that: it may try things on copies of a world.
const (
	taskBytes = 1 << 20
	taskWall  = 50 * time.Millisecond // thirty times what retail-mini needs on one core
)

// maxTasks is more than a training takes. A list's size stands in the ids of its
// tasks, which anybody may write.
const maxTasks = 100_000

// taskList generates a list of tasks, once.
func (d *Domain) taskList(ctx context.Context, l taskList) ([]task, error) {
	if l.n < 0 || l.n > maxTasks {
		return nil, &audit.Error{
			Code: audit.CodeLimit, Message: fmt.Sprintf("a list of %d tasks of domain %s", l.n, d.Manifest.Name),
			Hint: fmt.Sprintf("a list has at most %d; other seeds give others", maxTasks),
		}
	}
	return d.tasks.get(l, func() ([]task, error) {
		if d.tasksFile != nil {
			list, err := state.Decode(d.tasksFile)
			if err != nil {
				return nil, d.broken("read tasks.json", err)
			}
			return d.readTasks(list, l)
		}
		if d.makeTasks == nil {
			return nil, nil
		}
		root, err := d.initial(ctx, audit.Start{})
		if err != nil {
			return nil, err
		}
		seed, n := l.seed, l.n
		if seed == 0 {
			seed = worldSeed
		}
		if n == 0 {
			n = d.Manifest.Tasks
		}
		r := d.newRun(d.limits.Generate)
		r.tx = state.View(root)
		r.bytes = -generateBytes - int64(n)*taskBytes
		var list starlark.Value
		err = r.within(ctx, generateWall+time.Duration(n)*taskWall, func() error {
			args := starlark.Tuple{r.tx.Root(), newRNG(seed, "tasks"), starlark.MakeInt(n)}
			var err error
			if list, err = starlark.Call(r.thread, d.makeTasks, args, nil); err != nil {
				return err
			}
			list, err = state.Freeze(list)
			return err
		})
		if err != nil {
			return nil, d.broken("generate the tasks", err)
		}
		return d.readTasks(list, l)
	})
}

// broken is the error of a domain whose own code fails.
func (d *Domain) broken(what string, err error) error {
	return &audit.Error{
		Code: audit.CodeInvalid, Message: fmt.Sprintf("%s of domain %s: %s", what, d.Manifest.Name, faultText(err)),
		Hint: "the fault is in the domain's files",
	}
}

func (d *Domain) readTasks(list starlark.Value, l taskList) ([]task, error) {
	a, ok := list.(*state.Array)
	if !ok {
		return nil, d.broken("generate the tasks", fmt.Errorf("tasks returned %s, not a list", state.JSONType(list)))
	}
	tasks := make([]task, a.Len())
	seen := make(map[string]bool, a.Len())
	for i := range tasks {
		t, err := d.readTask(a.At(i))
		if err != nil {
			return nil, d.broken(fmt.Sprintf("generate task %d", i), err)
		}
		if t.ID == "" || seen[t.ID] || strings.Contains(t.ID, "~") {
			return nil, d.broken(fmt.Sprintf("generate task %d", i), fmt.Errorf("id %q is empty, repeated or holds ~", t.ID))
		}
		seen[t.ID] = true
		t.ID += l.suffix()
		tasks[i] = t
	}
	return tasks, nil
}

// readTask reads {"id", "prompt", "world", "state", "user", "setup", "solution", "checks"}.
func (d *Domain) readTask(v starlark.Value) (task, error) {
	var t task
	o, ok := v.(*state.Object)
	if !ok {
		return t, fmt.Errorf("a task is an object, not %s", state.JSONType(v))
	}
	var bad error
	o.Each(func(key string, v starlark.Value) bool {
		switch key {
		case "id":
			t.ID = pyText(v)
		case "prompt":
			t.Prompt = pyText(v)
		case "world":
			bad = starlark.AsInt(v, &t.world)
		case "state":
			if t.state, _ = v.(*state.Object); t.state == nil {
				bad = fmt.Errorf("state is an object, not %s", state.JSONType(v))
			}
		case "user":
			t.User = state.AppendJSON(nil, v)
		case "setup":
			t.Setup, bad = readCalls(v)
		case "solution":
			t.Solution, bad = readCalls(v)
		case "checks":
			bad = d.readChecks(&t, v)
		default:
			bad = fmt.Errorf("unknown key %q", key)
		}
		return bad == nil
	})
	return t, bad
}

func readCalls(v starlark.Value) ([]audit.Call, error) {
	var calls []struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
		Role      string          `json:"role"`
	}
	if err := json.Unmarshal(state.AppendJSON(nil, v), &calls); err != nil {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	out := make([]audit.Call, len(calls))
	for i, c := range calls {
		out[i] = audit.Call{Tool: c.Tool, Arguments: c.Arguments, Role: c.Role}
	}
	return out, nil
}

func (d *Domain) readChecks(t *task, v starlark.Value) error {
	a, ok := v.(*state.Array)
	if !ok {
		return fmt.Errorf("checks are a list, not %s", state.JSONType(v))
	}
	for i := range a.Len() {
		o, ok := a.At(i).(*state.Object)
		if !ok || o.Get("check") == nil {
			return fmt.Errorf(`a check is {"check": name, "params": {...}}, not %s`, brief(a.At(i)))
		}
		c := checkCall{name: pyText(o.Get("check"))}
		if c.fn = d.checks[c.name]; c.fn == nil {
			return fmt.Errorf("there is no check %q; declare it with check(fn)", c.name)
		}
		params, _ := o.Get("params").(*state.Object)
		if params == nil {
			params = state.NewObject(nil, nil)
		}
		params.Each(func(key string, v starlark.Value) bool {
			c.params = append(c.params, starlark.Tuple{starlark.String(key), v})
			return true
		})
		t.checks = append(t.checks, c)
		t.Checks = append(t.Checks, audit.TaskCheck{Check: c.name, Params: state.AppendJSON(nil, params)})
	}
	return nil
}
