package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"understudy/audit/diff"
)

// An echo rule is proven by at least 50 runs of which 99 % agree (facts of the
// field: less is chance).
const (
	minEchoRuns  = 50
	minEchoShare = 0.99
)

// EchoEvidence is what runs showed about one echo rule of a tool.
type EchoEvidence struct {
	Tool     string `json:"tool"`
	Pattern  string `json:"pattern"`  // of the answer
	Template string `json:"template"` // of the state cell
	Runs     int    `json:"runs"`     // ok answers that the rule could be tried on
	Hits     int    `json:"hits"`     // of these, with the state's value
	Declared bool   `json:"declared"` // by the tool; else found in the deltas
}

// Proven reports whether the rule may be used.
func (e *EchoEvidence) Proven() bool {
	return e.Runs >= minEchoRuns && float64(e.Hits) >= minEchoShare*float64(e.Runs)
}

// MineEcho runs episodes and finds which parts of a tool's answers repeat state
// cells: candidates come from the cells that calls changed, and from what tools
// declare; each is then tried on every run, changed or not. It needs sessions
// that show their state and exact deltas.
func MineEcho(ctx context.Context, env Environment, episodes []Episode) ([]EchoEvidence, error) {
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tools of %s: %w", env.Info().Name, err)
	}
	m := miner{rules: make(map[echoRule]*EchoEvidence)}
	for _, tool := range tools {
		for pattern, template := range tool.Echo {
			m.rule(tool.Name, pattern, template).Declared = true
		}
	}
	for _, collect := range []bool{true, false} { // first find candidates, then try all of them on all runs
		for i := range episodes {
			if err := m.run(ctx, env, &episodes[i], collect); err != nil {
				return nil, err
			}
		}
	}
	return m.evidence(), nil
}

// ProvenEcho is the echo map of each tool by proven evidence. Where two rules
// read one part of the answer, the one with more hits wins.
func ProvenEcho(evidence []EchoEvidence) map[string]EchoMap {
	maps := make(map[string]EchoMap)
	for i := range evidence { // best first
		e := &evidence[i]
		if !e.Proven() {
			continue
		}
		if maps[e.Tool] == nil {
			maps[e.Tool] = make(EchoMap)
		}
		if _, taken := maps[e.Tool][e.Pattern]; !taken {
			maps[e.Tool][e.Pattern] = e.Template
		}
	}
	return maps
}

type echoRule struct{ tool, pattern, template string }

type miner struct{ rules map[echoRule]*EchoEvidence }

func (m *miner) rule(tool, pattern, template string) *EchoEvidence {
	key := echoRule{tool, pattern, template}
	if m.rules[key] == nil {
		m.rules[key] = &EchoEvidence{Tool: tool, Pattern: pattern, Template: template}
	}
	return m.rules[key]
}

func (m *miner) run(ctx context.Context, env Environment, ep *Episode, collect bool) error {
	session, err := env.Open(ctx, ep.Start)
	if err != nil {
		return fmt.Errorf("open %s to mine echoes: %w", env.Info().Name, err)
	}
	defer session.Close()
	stater, ok := session.(Stater)
	if !ok {
		return &Error{Code: CodeInvalid, Message: "environment " + env.Info().Name + " does not show its state", Hint: "declare echo maps by hand, or use probes"}
	}
	for i := range ep.Actions {
		call := ep.Actions[i].Call
		o, err := session.Call(ctx, call)
		if err != nil {
			return fmt.Errorf("run step %d of episode %s: %w", i, ep.ID, err)
		}
		body, bad := diff.Decode(o.Raw, diff.Limits{})
		arguments, worse := diff.Decode(call.Arguments, diff.Limits{})
		if o.Status != StatusOK || bad != nil || worse != nil {
			continue
		}
		if collect {
			m.collect(call.Tool, arguments, body, o.Delta)
			continue
		}
		m.try(ctx, stater, call.Tool, arguments, body)
	}
	return nil
}

// collect pairs every changed cell with every leaf of the answer that holds its value.
func (m *miner) collect(tool string, arguments, body diff.Value, delta diff.Patch) {
	changed, err := cellsOf(delta, diff.DefaultLimits())
	if err != nil || len(changed) > maxClaims {
		return
	}
	var answer []string
	values := make(map[string]diff.Value)
	leaves(body, "", func(pointer string, leaf diff.Value) {
		answer, values[pointer] = append(answer, pointer), leaf
	})
	for cell, value := range changed {
		if value.Type() == diff.TypeAbsent {
			continue
		}
		for _, pointer := range answer {
			if diff.Equal(values[pointer], value) {
				pattern, template := generalise(pointer, cell, arguments, values)
				m.rule(tool, pattern, template)
			}
		}
	}
}

// generalise replaces what is particular to one call: equal indices by stars,
// tokens that are an argument or a leaf of the answer by placeholders.
func generalise(pointer, cell string, arguments diff.Value, answer map[string]diff.Value) (pattern, template string) {
	from, to := pointerTokens(pointer), pointerTokens(cell)
	for i, j := len(from)-1, len(to)-1; i >= 0 && j >= 0 && from[i] == to[j]; i, j = i-1, j-1 {
		if _, err := strconv.Atoi(from[i]); err == nil {
			from[i], to[j] = "*", "*"
		}
	}
	for i, token := range to {
		to[i] = escapeToken(token)
		if token == "*" {
			continue
		}
		if name, ok := argumentWith(arguments, token); ok {
			to[i] = "{" + name + "}"
			continue
		}
		for _, at := range sortedKeys(answer) {
			if leaf := answer[at]; leaf.Type() == diff.TypeString && leaf.Text() == token {
				to[i] = "{" + at + "}"
				break
			}
		}
	}
	for i := range from {
		if from[i] != "*" {
			from[i] = escapeToken(from[i])
		}
	}
	return pointerOf(from), pointerOf(to)
}

func pointerOf(tokens []string) string {
	if len(tokens) == 0 {
		return ""
	}
	return "/" + strings.Join(tokens, "/")
}

func argumentWith(arguments diff.Value, text string) (string, bool) {
	for name, value := range arguments.Members() {
		if value.Type() == diff.TypeString && value.Text() == text {
			return name, true
		}
	}
	return "", false
}

// try tests every rule of a tool against the state after the call.
func (m *miner) try(ctx context.Context, stater Stater, tool string, arguments, body diff.Value) {
	for key, e := range m.rules {
		if key.tool != tool {
			continue
		}
		claims := EchoMap{e.Pattern: e.Template}.claims(arguments, body)
		if len(claims) == 0 {
			continue
		}
		e.Runs++
		holds := true
		for pointer, value := range claims {
			text, err := stater.State(ctx, pointer)
			if err != nil {
				holds = false
				break
			}
			at, err := diff.Decode(text, diff.Limits{})
			if holds = err == nil && diff.Equal(at, value); !holds {
				break
			}
		}
		if holds {
			e.Hits++
		}
	}
}

// evidence lists the rules by tool, the best first.
func (m *miner) evidence() []EchoEvidence {
	all := make([]EchoEvidence, 0, len(m.rules))
	for _, e := range m.rules {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b EchoEvidence) int {
		return cmp.Or(
			cmp.Compare(a.Tool, b.Tool), -cmp.Compare(a.Hits, b.Hits), cmp.Compare(a.Pattern, b.Pattern),
			-cmp.Compare(strings.Count(a.Template, "{"), strings.Count(b.Template, "{")), cmp.Compare(a.Template, b.Template),
		)
	})
	return all
}
