package synth_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/sandbox"
	"understudy/sandbox/pyclass"
	"understudy/sandbox/starlark"
	"understudy/sandbox/synth"
	"understudy/sandbox/synth/synthtest"
)

func TestMain(m *testing.M) {
	starlark.ChildMain()
	os.Exit(m.Run())
}

// scripted is the test author as a model; before may answer in its place.
type scripted struct {
	author synthtest.Author
	before func(p synth.Prompt) (string, error)
	asked  int
}

func (s *scripted) Complete(_ context.Context, p synth.Prompt) (string, synth.Tokens, error) {
	s.asked++
	if s.before != nil {
		if text, err := s.before(p); text != "" || err != nil {
			return text, synth.Tokens{Prompt: 1}, err
		}
	}
	return s.author.Answer(p.System, p.User), synth.Tokens{Prompt: 100, Completion: 10}, nil
}

func requests() []string { return []string{"Please lend me Dune.", "What will the weather be?"} }

func TestRun(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	model := &scripted{}
	report, err := synth.Run(t.Context(), model, synth.HashedGrams{}, requests(), synth.Options{Out: out, Scenarios: 2, Steps: 5})
	if err != nil {
		t.Fatal(err)
	}
	if report.Mined != 3 || report.Themes != 2 {
		t.Errorf("%d themes mined, %d kept: want 3, and 2 without the near-duplicate", report.Mined, report.Themes)
	}
	desk, weather := report.Environments[0], report.Environments[1]
	if !desk.Accepted || desk.Name != "lending-desk" || desk.Tools != 3 || desk.Categories != 2 || desk.Rules != 2 {
		t.Errorf("the lending desk: %+v", desk)
	}
	if desk.Rounds != 1 || desk.Score != (synth.Score{Steps: 5, Pass: 5}) {
		t.Errorf("rounds %d, score %+v: the missing limit is mended, then all pass", desk.Rounds, desk.Score)
	}
	if desk.Scenarios != 2 || len(desk.Refused) != 0 {
		t.Errorf("%d scenarios, refused %q: the one whose check passed at once was written again", desk.Scenarios, desk.Refused)
	}
	if weather.Accepted || !strings.Contains(weather.Reason, "no operation writes") {
		t.Errorf("the oracle: %+v", weather)
	}
	if desk.Tokens.Prompt == 0 || desk.ScenarioTokens.Prompt != 300 {
		t.Errorf("tokens %+v, of scenarios %+v", desk.Tokens, desk.ScenarioTokens)
	}
	contract(t, out)
	if t.Failed() {
		return
	}

	asked := model.asked
	again, err := synth.Run(t.Context(), model, synth.HashedGrams{}, requests(), synth.Options{Out: out, Scenarios: 2, Steps: 5})
	if err != nil || model.asked != asked || len(again.Environments) != 2 || again.Environments[0].Name != "lending-desk" {
		t.Errorf("a second run asked %d times more and reports %+v, %v: what is made is kept", model.asked-asked, again.Environments, err)
	}
}

// contract holds the made domain to what an auditor relies on.
func contract(t *testing.T, out string) {
	t.Helper()
	registry := sandbox.NewForeign(os.DirFS(out))
	defer func() { _ = registry.Close() }()
	names, err := registry.Names()
	if err != nil || !slices.Equal(names, []string{"lending-desk"}) {
		t.Fatalf("the output folder holds %v, %v: drafts and rejects are no domains", names, err)
	}
	env, err := registry.Environment(t.Context(), "lending-desk")
	if err != nil {
		t.Fatal(err)
	}
	report, err := sandbox.Contract(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range report.Findings {
		if finding.Verdict == sandbox.Fail {
			t.Errorf("contract: %+v", finding)
		}
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if _, err := synth.Run(t.Context(), &scripted{}, synth.HashedGrams{}, requests(), synth.Options{Out: out, Scenarios: 2, Steps: 5}); err != nil {
		t.Fatal(err)
	}
	written, refused, err := synth.WritePython(t.Context(), out)
	if err != nil || !slices.Equal(written, []string{"lending-desk"}) || len(refused) != 0 {
		t.Fatalf("written %v, refused %v, %v", written, refused, err)
	}
	spec, err := pyclass.LoadEnvScaler(filepath.Join(out, synth.PythonMetadata), filepath.Join(out, synth.PythonScenarios), "lending-desk")
	if err != nil {
		t.Fatal(err)
	}
	class, err := pyclass.New(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = class.Close() }()
	session, err := class.Open(t.Context(), audit.Start{Task: "s2"})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := session.Call(t.Context(), audit.Call{Tool: "lend", Arguments: json.RawMessage(`{"member":"m1","book":"b3"}`)})
	if err != nil || seen.Status != audit.StatusOK || !strings.Contains(string(seen.Raw), `"due": "2025-`) {
		t.Errorf("lend answers (%s) %s, %v", seen.Status, seen.Raw, err)
	}
	check, err := session.(audit.Checker).Check(t.Context(), "s2")
	if err != nil || !check.Success() || check.Initial != 0 {
		t.Errorf("the task's checks: %+v, %v", check, err)
	}

	// A class that no longer does what its sandbox does is not written.
	rule := filepath.Join(out, "lending-desk", "tool_take_back.star")
	text, err := os.ReadFile(rule)
	if err != nil {
		t.Fatal(err)
	}
	differs := strings.Replace(string(text), `return shown(db, member)`, `return dict(shown(db, member), letters=len("é"))`, 1)
	if err := os.WriteFile(rule, []byte(differs), 0o600); err != nil {
		t.Fatal(err)
	}
	written, refused, err = synth.WritePython(t.Context(), out)
	if err != nil || len(written) != 0 || len(refused) != 1 || !strings.Contains(refused[0], "take_back") {
		t.Errorf("written %v, refused %v, %v: a string is bytes in Starlark and letters in Python", written, refused, err)
	}
}

func TestRunEndsEarly(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	tests := []struct {
		options synth.Options
		before  func(p synth.Prompt) (string, error)
		want    error
		reason  string
	}{
		{synth.Options{MaxTokens: 900}, nil, synth.ErrBudget, "the budget is for the whole run"},
		{synth.Options{}, func(p synth.Prompt) (string, error) {
			if strings.Contains(p.System, "You check") {
				return "", down
			}
			return "", nil
		}, down, "no environment is to blame for a model that is down"},
	}
	for _, test := range tests {
		test.options.Out, test.options.Steps = t.TempDir(), 5
		report, err := synth.Run(t.Context(), &scripted{before: test.before}, synth.HashedGrams{}, requests(), test.options)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.reason, err)
		}
		if len(report.Environments) != 0 {
			t.Errorf("%s: %+v is reported, and would not be made again", test.reason, report.Environments)
		}
		report, err = synth.Run(t.Context(), &scripted{}, synth.HashedGrams{}, requests(), synth.Options{Out: test.options.Out, Scenarios: 1, Steps: 5})
		if err != nil || len(report.Environments) != 2 || !report.Environments[0].Accepted {
			t.Errorf("%s: a second run makes what is missing: %+v, %v", test.reason, report.Environments, err)
		}
	}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	model := &scripted{before: func(p synth.Prompt) (string, error) {
		switch {
		case strings.Contains(p.System, "You check"):
			return `{"verdict":"warning","reason":"unclear"}`, nil
		case strings.Contains(p.User, "operation take_back"):
			return `{"code":"def take_back(db):\n    return 1\ntool(take_back"}`, nil
		}
		return "", nil
	}}
	report, err := synth.Run(t.Context(), model, synth.HashedGrams{}, requests(), synth.Options{Out: out, Steps: 5, Environments: 1})
	if err != nil {
		t.Fatal(err)
	}
	desk := report.Environments[0]
	if desk.Accepted || desk.Score.Warning == 0 || len(desk.Dropped) != 1 || !strings.Contains(desk.Dropped[0], "take_back.star:") {
		t.Errorf("%+v: warnings do not pass, and a tool that stays broken is named with its place", desk)
	}
	if _, err := os.Stat(filepath.Join(out, ".rejected", "lending-desk", "tool_lend.star")); err != nil {
		t.Errorf("a rejected domain can be looked at: %v", err)
	}
	compat, err := synth.Run(t.Context(), model, synth.HashedGrams{}, requests(), synth.Options{Out: t.TempDir(), Steps: 5, Environments: 1, Compat: true, Scenarios: 1})
	if err != nil || !compat.Environments[0].Accepted {
		t.Errorf("compat: %+v, %v: there a warning passes", compat.Environments, err)
	}
}

func TestScoreRate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		score        synth.Score
		rate, compat float64
		reason       string
	}{
		{synth.Score{}, 0, 0, "nothing was tried"},
		{synth.Score{Steps: 10, Pass: 6, Warning: 2, Fail: 1, Raised: 1}, .6, 8.0 / 9, "a broken step is a step; compat forgets it"},
		{synth.Score{Steps: 3, Raised: 3}, 0, 0, "everything broke"},
	}
	for _, test := range tests {
		if a, b := test.score.Rate(false), test.score.Rate(true); math.Abs(a-test.rate) > 1e-12 || math.Abs(b-test.compat) > 1e-12 {
			t.Errorf("%s: %v and %v, want %v and %v", test.reason, a, b, test.rate, test.compat)
		}
	}
}

func TestReadRequests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		file    string
		want    []string
		skipped int
		reason  string
	}{
		{`{"instruction":"book a room","input":"x"}` + "\n" + `{"query":"cancel it"}`, []string{"book a room", "cancel it"}, 0, "API-Bank"},
		{`[{"system":"s","conversations":[{"from":"system","value":"no"},{"from":"user","value":"pay"}]}]`, []string{"pay"}, 0, "ToolACE"},
		{`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}]}`, []string{"hello"}, 0, "chat"},
		{`["one","two"]`, []string{"one", "two"}, 0, "texts"},
		{`{"task":"t"} {"unknown":1} 7`, []string{"t"}, 2, "what holds no request is counted"},
	}
	for _, test := range tests {
		got, skipped, err := synth.ReadRequests("f", strings.NewReader(test.file))
		if err != nil || !slices.Equal(got, test.want) || skipped != test.skipped {
			t.Errorf("%s: %q, %d skipped, %v", test.reason, got, skipped, err)
		}
	}
	for _, file := range []string{"", "{", "{}", `{"task":"t"} nonsense`} {
		if got, _, err := synth.ReadRequests("tasks.jsonl", strings.NewReader(file)); audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), "tasks.jsonl") {
			t.Errorf("%q: %q, %v: want an error that names the file", file, got, err)
		}
	}
}

func TestAverages(t *testing.T) {
	t.Parallel()
	report := synth.Report{
		MiningTokens: synth.Tokens{Prompt: 1e6},
		Environments: []synth.Environment{
			{Accepted: true, Tools: 10, Categories: 4, Rules: 2, Scenarios: 4, Tokens: synth.Tokens{Prompt: 1e6}, ScenarioTokens: synth.Tokens{Completion: 1e6}},
			{Tools: 99, Tokens: synth.Tokens{Prompt: 2e6}},
		},
	}
	want := synth.Averages{Tools: 10, Categories: 4, Rules: 2, Environment: 8, Scenario: 1, Environments: 1, Scenarios: 4}
	if got := report.Averages(synth.Price{Prompt: 2, Completion: 4}); got != want {
		t.Errorf("got %+v, want %+v: what was rejected has cost something too", got, want)
	}
	if got := (synth.Report{}).Averages(synth.Price{Prompt: 1}); got != (synth.Averages{}) {
		t.Errorf("nothing made: %+v", got)
	}
}
