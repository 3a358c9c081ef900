package adapter_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// script is a server whose answers are written down: by tool and arguments, the
// last one again and again.
type script map[string][]adapter.Reply

func (s script) Tools(context.Context) ([]audit.Tool, error) {
	return []audit.Tool{{Name: "list", Effect: audit.Read}, {Name: "add", Effect: audit.Write}}, nil
}

func (s script) Begin(context.Context, adapter.Begin) (adapter.Episode, error) { return s, nil }

func (s script) Close() error { return nil }

func (s script) Call(_ context.Context, tool string, arguments json.RawMessage) (adapter.Reply, error) {
	key := tool + string(arguments)
	answers := s[key]
	if len(answers) > 1 {
		s[key] = answers[1:]
	}
	return answers[0], nil
}

func said(text string) adapter.Reply {
	return adapter.Reply{Status: audit.StatusOK, Raw: []byte(text)}
}

func played(t *testing.T, s script, config adapter.Config, task string) audit.Session {
	t.Helper()
	config.Name, config.Deterministic = "script", true
	env, err := adapter.New(t.Context(), s, config)
	if err != nil {
		t.Fatal(err)
	}
	session, err := env.Open(t.Context(), audit.Start{Task: task})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// TestProbesOverEachOther: a list and a search in it are both seen, though the
// one's place is above the other's.
func TestProbesOverEachOther(t *testing.T) {
	t.Parallel()
	s := script{
		`list{}`:             {said(`[1]`), said(`[1,2]`)},
		`list{"word":"red"}`: {said(`[]`)},
		`add{}`:              {said(`{}`)},
	}
	session := played(t, s, adapter.Config{Probes: []adapter.Probe{{Call: "list"}, {Call: "list", Arguments: json.RawMessage(`{"word":"red"}`)}}}, "")
	o, err := session.Call(t.Context(), audit.Call{Tool: "add"})
	if err != nil || o.Evidence != audit.EvidenceProbed || len(o.Delta) != 1 || !strings.HasPrefix(o.Delta[0].Path, "/list/") {
		t.Errorf("got %s %v, %v; want the one change that the list shows", o.Evidence, o.Delta, err)
	}
}

// TestWhatShowsNothing: a read that broke, or that nobody can read, is neither a
// check that holds nor one that fails, and no probe.
func TestWhatShowsNothing(t *testing.T) {
	t.Parallel()
	for reason, broken := range map[string]adapter.Reply{
		"what cannot be read has no absent place": said("{\xff"),
		"a fault without an error":                {Status: audit.StatusFault},
		"an unknown outcome":                      {Status: audit.StatusUnknown},
	} {
		s := script{`list{}`: {said(`{"a":1}`), broken}, `add{}`: {said(`{}`)}}
		session := played(t, s, adapter.Config{
			Probes: []adapter.Probe{{Call: "list"}},
			Tasks:  []adapter.Task{{ID: "t1", Checks: []adapter.Check{{Call: audit.Call{Tool: "list"}, At: "/a", Absent: true}}}},
		}, "t1")
		if result, err := session.(audit.Checker).Check(t.Context(), "t1"); err == nil {
			t.Errorf("%s: the check's result is %+v", reason, result)
		}
		if o, err := session.Call(t.Context(), audit.Call{Tool: "add"}); err != nil || o.Status != audit.StatusOK || o.Evidence != audit.EvidenceResponse {
			t.Errorf("%s: as a probe, it makes %s %s, %v; want the answer alone", reason, o.Status, o.Evidence, err)
		}
	}
}

// TestChangedTools names the same tool each time.
func TestChangedTools(t *testing.T) {
	t.Parallel()
	of := func(names ...string) []audit.Tool {
		var out []audit.Tool
		for _, name := range names {
			out = append(out, audit.Tool{Name: name[:1], Input: json.RawMessage(name[1:])})
		}
		return out
	}
	for _, row := range []struct {
		before, now []audit.Tool
		want        string
	}{
		{of("a1", "b1"), of("b1", "a1"), ""},
		{of("d", "c", "b", "a"), nil, "a is gone"},
		{of("a1", "b1"), of("a2", "c"), "a has another schema"},
		{of("a"), of("c", "b", "a"), "b is new"},
	} {
		if got := adapter.ChangedTools(row.before, row.now); got != row.want {
			t.Errorf("from %v to %v: %q, want %q", row.before, row.now, got, row.want)
		}
	}
}
