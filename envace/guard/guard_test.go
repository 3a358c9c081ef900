package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/guard"
)

// shop answers every call, and counts.
type shop struct{ calls []audit.Call }

func (s *shop) Info() audit.EnvironmentInfo {
	return audit.EnvironmentInfo{Name: "shop"}
}
func (s *shop) Tools(context.Context) ([]audit.Tool, error)              { return nil, nil }
func (s *shop) Open(context.Context, audit.Start) (audit.Session, error) { return s, nil }
func (s *shop) Close() error                                             { return nil }

func (s *shop) Call(_ context.Context, c audit.Call) (audit.Observation, error) {
	s.calls = append(s.calls, c)
	return audit.Observation{Status: audit.StatusOK, Raw: []byte(`{"ok":true}`)}, nil
}

func tools() []audit.Tool {
	schema := json.RawMessage(`{"type":"object","required":["amount"],"properties":{"amount":{"type":"integer"}}}`)
	return []audit.Tool{
		{Name: "look", Effect: audit.Read},
		{Name: "pay", Effect: audit.Write, Input: schema, Role: "assistant"},
		{Name: "grant", Effect: audit.Write, Role: "user"},
		{Name: "odd", Effect: audit.UnknownEffect},
	}
}

func call(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}

func evidence(c audit.Call, answers ...guard.Rehearsed) guard.Evidence {
	return guard.Evidence{audit.CallDigest(c): answers}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	pay := call("pay", `{"amount":5}`)
	sure := guard.Rehearsed{OK: true, Confidence: new(1.0)}
	yes := func(context.Context, audit.Call, guard.Risk) (guard.Approval, error) {
		return guard.Approval{Granted: true, By: "ann", Reason: "seen"}, nil
	}
	no := func(context.Context, audit.Call, guard.Risk) (guard.Approval, error) {
		return guard.Approval{By: "ann", Reason: "not today"}, nil
	}
	measured := map[string]guard.Measured{"pay": {FSR: .05}, "odd": {FSR: .05}}
	limit := guard.Validator{Name: "limit", Check: func(_ context.Context, c audit.Call, _ []audit.Turn) error {
		if strings.Contains(string(c.Arguments), "5") {
			return errors.New("over 4")
		}
		return nil
	}}
	tests := []struct {
		config   guard.Config
		call     audit.Call
		evidence guard.Evidence
		made     bool
		check    guard.Check
		family   audit.Family
		reason   string
	}{
		{guard.Config{}, call("look", `{}`), nil, true, guard.CheckPermission, "", "a read needs no rehearsal"},
		{guard.Config{}, call("drop_all", `{}`), nil, false, guard.CheckSchema, audit.UnknownTool, "a tool that is not declared"},
		{guard.Config{}, call("pay", `{"amount":`), nil, false, guard.CheckSchema, audit.MalformedCall, "no JSON"},
		{guard.Config{}, call("pay", `[5]`), nil, false, guard.CheckSchema, audit.MalformedCall, "no object"},
		{guard.Config{}, call("pay", `{"amount":"5"}`), nil, false, guard.CheckSchema, audit.SchemaInvalid, "the wrong type"},
		{guard.Config{}, call("grant", `{}`), nil, false, guard.CheckPermission, audit.Authorization, "the user's tool"},
		{guard.Config{Permit: func(audit.Call, audit.Tool) error { return errors.New("not yours") }}, pay, nil, false, guard.CheckPermission, audit.Authorization, "a permission that is not given"},
		{guard.Config{Validators: []guard.Validator{limit}}, pay, evidence(pay, sure), false, guard.CheckRule, audit.Precondition, "a business rule says no, whatever was rehearsed"},
		{guard.Config{Measured: measured}, pay, evidence(pay, sure), true, guard.CheckRisk, "", "rehearsed ok by a policy that is seldom wrong"},
		{guard.Config{Measured: measured}, pay, evidence(pay, sure, guard.Rehearsed{}), false, guard.CheckRisk, audit.Authorization, "one of two rehearsals was refused"},
		{guard.Config{Measured: measured}, pay, evidence(pay, guard.Rehearsed{OK: true, Confidence: new(.5)}), false, guard.CheckRisk, audit.Authorization, "rehearsed without confidence"},
		{guard.Config{}, pay, evidence(pay, sure), false, guard.CheckRisk, audit.Authorization, "a tool whose FSR nobody has measured"},
		{guard.Config{Measured: map[string]guard.Measured{"pay": {FSR: .6}}}, pay, evidence(pay, sure), false, guard.CheckRisk, audit.Authorization, "a policy that invents successes"},
		{guard.Config{Measured: measured}, pay, nil, false, guard.CheckRisk, audit.Authorization, "never rehearsed"},
		{guard.Config{Measured: measured}, call("odd", `{}`), nil, false, guard.CheckRisk, audit.Authorization, "a tool of unknown effect counts as a write"},
		{guard.Config{Approve: yes}, pay, nil, true, guard.CheckApproval, "", "a person takes the risk"},
		{guard.Config{Approve: no}, pay, nil, false, guard.CheckApproval, audit.Authorization, "a person does not"},
		{guard.Config{Approve: no, ApproveAll: true, Measured: measured}, pay, evidence(pay, sure), false, guard.CheckApproval, audit.Authorization, "every write is asked about"},
	}
	for _, test := range tests {
		journal := openJournal(t, filepath.Join(t.TempDir(), "j"))
		test.config.Tools, test.config.Journal = tools(), journal
		env := &shop{}
		answer, err := worldOf(t, test.config, env, test.evidence).Answer(t.Context(), &envace.Transcript{}, test.call, 0)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		entries, err := journal.Entries(t.Context(), "e")
		if err != nil || len(entries) != 2 || entries[0].Phase != guard.Decided || entries[1].Phase != guard.Answered {
			t.Fatalf("%s: journal %+v, %v: want the decision, then the answer", test.reason, entries, err)
		}
		d := entries[0].Decision
		if d.Allowed != test.made || d.Check != test.check || d.Family != test.family || d.Reason == "" || (len(env.calls) == 1) != test.made {
			t.Errorf("%s: %+v, %d calls made", test.reason, *d, len(env.calls))
		}
		if refused := strings.Contains(string(answer.Raw), `"error"`); refused == test.made {
			t.Errorf("%s: ACT reads %s", test.reason, answer.Raw)
		}
	}
}

func openJournal(t *testing.T, path string) *guard.File {
	t.Helper()
	journal, err := guard.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	return journal
}

func worldOf(t *testing.T, c guard.Config, env audit.Environment, e guard.Evidence) envace.World {
	t.Helper()
	g, err := guard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	world, err := guard.Execution{Guard: g, Environment: env, ID: "e", Evidence: e}.Open(t.Context(), audit.Task{ID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return world
}

// A write that succeeded is not made again in its execution, unless repeats are allowed.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	pay := call("pay", `{"amount":5}`)
	for repeats, want := range map[bool]int{false: 1, true: 2} {
		env := &shop{}
		world := worldOf(t, guard.Config{
			Tools: tools(), Journal: openJournal(t, filepath.Join(t.TempDir(), "j")), Repeats: repeats, Measured: map[string]guard.Measured{"pay": {}},
		}, env, evidence(pay, guard.Rehearsed{OK: true}))
		for range 2 {
			answer, err := world.Answer(t.Context(), &envace.Transcript{}, pay, 0)
			if err != nil || string(answer.Raw) != `{"ok":true}` {
				t.Errorf("repeats %v: %s, %v", repeats, answer.Raw, err)
			}
		}
		if len(env.calls) != want {
			t.Errorf("repeats %v: %d calls, want %d", repeats, len(env.calls), want)
		}
	}
}

// A journal that somebody mended: an answer without a status keeps the write from being
// made again, and an entry that fits nothing is said instead of left out.
func TestJournalByHand(t *testing.T) {
	t.Parallel()
	pay := call("pay", `{"amount":5}`)
	begin := []guard.Entry{{Execution: "e", Phase: guard.Decided, Call: &pay, Decision: &guard.Decision{Allowed: true}}}
	journalOf := func(entries ...guard.Entry) *guard.Volatile {
		journal := &guard.Volatile{}
		for _, e := range append(begin, entries...) {
			if err := journal.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		return journal
	}
	env := &shop{}
	world := worldOf(t, guard.Config{Tools: tools(), Journal: journalOf(guard.Entry{Execution: "e", Phase: guard.Answered, Text: "paid"})}, env, nil)
	for i := range 2 {
		if answer, err := world.Answer(t.Context(), &envace.Transcript{}, pay, 0); err != nil || string(answer.Raw) != "paid" || len(env.calls) > 0 {
			t.Errorf("call %d: %s, %v, made %v", i, answer.Raw, err, env.calls)
		}
	}
	for _, wrong := range []guard.Entry{
		{Execution: "e", Index: 1, Phase: guard.Answered},
		{Execution: "e", Index: -1, Phase: guard.Answered},
		{Execution: "e", Index: 2, Phase: guard.Decided, Call: &pay, Decision: &guard.Decision{}},
		{Execution: "e", Index: 1, Phase: guard.Decided},
		{Execution: "e"},
	} {
		g, err := guard.New(guard.Config{Tools: tools(), Journal: journalOf(wrong)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (guard.Execution{Guard: g, Environment: env, ID: "e"}).Open(t.Context(), audit.Task{ID: "t"}); audit.ErrorCode(err) != audit.CodeInvalid || audit.ErrorHint(err) == "" {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// A policy that goes on with another call than the journal has is stopped.
func TestAnotherPolicyCannotGoOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	env := &shop{}
	for i, c := range []audit.Call{call("look", `{}`), call("look", `{"all":true}`)} {
		journal := openJournal(t, path)
		_, err := worldOf(t, guard.Config{Tools: tools(), Journal: journal}, env, nil).Answer(t.Context(), &envace.Transcript{}, c, 0)
		if (audit.ErrorCode(err) == audit.CodeConflict) != (i == 1) {
			t.Errorf("call %d: %v", i, err)
		}
		if err := journal.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJournalFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	journal := openJournal(t, path)
	if _, err := guard.OpenFile(path); audit.ErrorCode(err) != audit.CodeConflict {
		t.Errorf("two processes in one journal: %v", err)
	}
	for i := range 2 {
		if err := journal.Append(t.Context(), guard.Entry{Execution: "e", Index: i, Phase: guard.Answered, Text: "a\nb"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-9], 0o600); err != nil { // a crash cuts the last line
		t.Fatal(err)
	}
	journal = openJournal(t, path)
	if err := journal.Append(t.Context(), guard.Entry{Execution: "e", Index: 5, Phase: guard.Done}); err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	journal = openJournal(t, path)
	entries, err := journal.Entries(t.Context(), "e")
	if err != nil || len(entries) != 2 || entries[0].Text != "a\nb" || entries[1].Index != 5 {
		t.Errorf("%+v, %v: want the whole line and the one after the crash", entries, err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("nonsense\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.OpenFile(path); audit.ErrorHint(err) == "" {
		t.Errorf("a damaged journal: %v", err)
	}
}

func TestRiskIsBayes(t *testing.T) {
	t.Parallel()
	pay := call("pay", `{"amount":5}`)
	journal := openJournal(t, filepath.Join(t.TempDir(), "j"))
	world := worldOf(t, guard.Config{
		Tools: tools(), Journal: journal, Prior: .2, Measured: map[string]guard.Measured{"pay": {FSR: .1, FalseError: .3}},
	}, &shop{}, evidence(pay, guard.Rehearsed{OK: true, Confidence: new(.9)}))
	if _, err := world.Answer(t.Context(), &envace.Transcript{}, pay, 0); err != nil {
		t.Fatal(err)
	}
	entries, err := journal.Entries(t.Context(), "e")
	if err != nil {
		t.Fatal(err)
	}
	refused := .1 * .2 / (.1*.2 + .7*.8) // P(refused | rehearsed ok)
	if got, want := entries[0].Decision.Risk.Value, 1-.9*(1-refused); math.Abs(got-want) > 1e-12 {
		t.Errorf("risk %v, want %v", got, want)
	}
}
