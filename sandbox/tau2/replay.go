package tau2

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
	engine "understudy/sandbox/starlark"
)

// Line is one recorded call: what was asked, and what the reference answered and
// changed. Lists in Delta are replaced as one cell.
type Line struct {
	Episode   string          `json:"episode"`
	Step      int             `json:"step"`
	Role      string          `json:"role"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Error     bool            `json:"error"`
	Content   string          `json:"content"`
	Delta     diff.Patch      `json:"delta"`
}

// Disagreement is a line on which the domain and the recording differ.
type Disagreement struct {
	Line     Line
	What     string // outcome, content or delta
	Recorded string
	Ours     string
}

// String shows both sides.
func (d Disagreement) String() string {
	return fmt.Sprintf("%s step %d: %s(%s) as %s: %s differs\n  recorded: %s\n  ours:     %s",
		d.Line.Episode, d.Line.Step, d.Line.Tool, d.Line.Arguments, d.Line.Role, d.What, d.Recorded, d.Ours)
}

// Replay runs a recording through the bundle and returns how many lines it has
// and where the two disagree. Each episode starts from the bundle's state; calls
// of role "setup" prepare an episode and are not compared.
func (b *Bundle) Replay(ctx context.Context, recording io.Reader) (lines int, all []Disagreement, err error) {
	env := engine.NewEnvironment(b.Domain)
	defer env.Close()
	r := replay{env: env}
	scanner := bufio.NewScanner(recording)
	scanner.Buffer(nil, 16<<20) // a line carries whole lists
	for scanner.Scan() {
		var l Line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return lines, all, fmt.Errorf("line %d of the recording: %w", lines+1, err)
		}
		lines++
		found, err := r.step(ctx, l)
		if err != nil {
			return lines, all, fmt.Errorf("%s step %d: %w", l.Episode, l.Step, err)
		}
		all = append(all, found...)
	}
	return lines, all, scanner.Err()
}

// replay is a recording on its way through an environment.
type replay struct {
	env     audit.Environment
	session audit.Session
	episode string
}

func (r *replay) step(ctx context.Context, l Line) ([]Disagreement, error) {
	if r.session == nil || l.Episode != r.episode {
		var err error
		if r.session, err = r.env.Open(ctx, audit.Start{}); err != nil {
			return nil, err
		}
		r.episode = l.Episode
	}
	before, err := r.session.(audit.Forker).Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	obs, err := r.session.Call(ctx, audit.Call{Tool: l.Tool, Arguments: l.Arguments, Role: l.Role})
	if err != nil || l.Role == "setup" {
		return nil, err
	}
	ours, err := wholeLists(ctx, obs.Delta, before, r.session)
	if err != nil {
		return nil, err
	}
	return compare(l, obs, ours), nil
}

func compare(l Line, obs audit.Observation, delta diff.Patch) []Disagreement {
	var found []Disagreement
	note := func(what, recorded, ours string) {
		found = append(found, Disagreement{Line: l, What: what, Recorded: recorded, Ours: ours})
	}
	if failed := obs.Status != audit.StatusOK; failed != l.Error {
		note("outcome", fmt.Sprintf("error %t: %s", l.Error, l.Content), fmt.Sprintf("%s: %s", obs.Status, obs.Raw))
		return found
	}
	if !sameText(l.Content, string(obs.Raw)) {
		note("content", l.Content, string(obs.Raw))
	}
	if !samePatch(l.Delta, delta) {
		recorded, _ := json.Marshal(l.Delta)
		ours, _ := json.Marshal(delta)
		note("delta", string(recorded), string(ours))
	}
	return found
}

// sameText compares two answers: as JSON where both are JSON (25 = 25.0), else as text.
func sameText(a, b string) bool {
	if a == b {
		return true
	}
	x, err1 := diff.Decode([]byte(a), diff.DefaultLimits())
	y, err2 := diff.Decode([]byte(b), diff.DefaultLimits())
	return err1 == nil && err2 == nil && diff.Equal(x, y)
}

func samePatch(a, b diff.Patch) bool {
	if len(a) != len(b) {
		return false
	}
	byPath := func(x, y diff.Op) int { return strings.Compare(x.Path, y.Path) }
	a, b = slices.SortedFunc(slices.Values(a), byPath), slices.SortedFunc(slices.Values(b), byPath)
	for i := range a {
		if a[i].Op != b[i].Op || a[i].Path != b[i].Path || !sameCell(a[i].Old, b[i].Old) || !sameCell(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func sameCell(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return sameText(string(a), string(b))
}

// wholeLists rewrites a delta so that a change inside a list replaces the list,
// and leaves out the engine's own counters.
func wholeLists(ctx context.Context, delta diff.Patch, before, after audit.Session) (diff.Patch, error) {
	cells := diff.Patch{}
	done := map[string]bool{}
	for _, op := range delta {
		if strings.HasPrefix(op.Path, "/$sys") {
			continue
		}
		list, err := outermostList(ctx, before, op.Path)
		if err != nil {
			return nil, err
		}
		if list == "" {
			cells = append(cells, op)
			continue
		}
		if done[list] {
			continue
		}
		done[list] = true
		cell := diff.Op{Op: "replace", Path: list}
		if cell.Old, err = before.(audit.Stater).State(ctx, list); err != nil {
			return nil, err
		}
		if cell.Value, err = after.(audit.Stater).State(ctx, list); err != nil {
			return nil, err
		}
		cells = append(cells, cell)
	}
	return cells, nil
}

// outermostList is the first list that the pointer leads into, or "".
func outermostList(ctx context.Context, session audit.Session, pointer string) (string, error) {
	tokens := strings.Split(pointer, "/")
	for i := 2; i < len(tokens); i++ {
		at := strings.Join(tokens[:i], "/")
		if tokens[i] != "-" && strings.Trim(tokens[i], "0123456789") != "" {
			continue // not an index: what holds it is an object
		}
		v, err := session.(audit.Stater).State(ctx, at)
		if err != nil {
			return "", err
		}
		if len(v) > 0 && v[0] == '[' {
			return at, nil
		}
	}
	return "", nil
}
