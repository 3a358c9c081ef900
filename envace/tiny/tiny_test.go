package tiny_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/tiny"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// shop is retail-mini with its words.
type shop struct {
	env    audit.Environment
	tools  []audit.Tool
	tasks  []audit.Task
	rules  *audit.Rules
	format tiny.Format
}

func openShop(t *testing.T) shop {
	t.Helper()
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), "retail-mini")
	if err != nil {
		t.Fatal(err)
	}
	s := shop{env: env}
	if s.tools, err = env.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.tasks, err = env.(audit.Tasker).Tasks(t.Context(), 7, 200); err != nil {
		t.Fatal(err)
	}
	if s.rules, err = audit.NewRules(audit.RulesSpec{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	words, err := tiny.Learn(t.Context(), env, 1, 300)
	if err != nil {
		t.Fatal(err)
	}
	s.format = tiny.Format{Vocabulary: words}
	return s
}

// solver is a policy that makes given calls and then is done.
type solver struct {
	format tiny.Format
	calls  []audit.Call
}

func (p solver) Generate(_ context.Context, r envace.Request) (envace.Output, error) {
	prompt, err := p.format.Prompt(r.Transcript, r.Role, r.Call)
	if err != nil {
		return envace.Output{}, err
	}
	made := 0
	for _, item := range r.Transcript.Items {
		if item.Act != nil {
			made++
		}
	}
	output := envace.Output{Role: r.Role, Prompt: prompt, Tokens: p.format.DoneTokens()}
	if made < len(p.calls) {
		tokens, err := p.format.CallTokens(p.calls[made])
		if err != nil {
			return output, err
		}
		output.Tokens = append(tokens, p.format.Vocabulary.End())
	}
	return output, nil
}

func (s shop) solve(t *testing.T, task audit.Task, calls []audit.Call) *envace.Trajectory {
	t.Helper()
	rollout := envace.Rollout{
		Policy: solver{s.format, calls}, Source: envace.Executing{Environment: s.env}, ReadAct: s.format.ReadAct, Tools: s.tools, Rules: s.rules,
	}
	trajectory, err := rollout.Run(t.Context(), task, 1)
	if err != nil {
		t.Fatal(err)
	}
	return trajectory
}

func TestLanguageHoldsTheShop(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	if size := s.format.Vocabulary.Size(); size < 256 || size > 384 {
		t.Errorf("%d words: the vocabulary of a tiny policy has 256 to 384", size)
	}
	longest := 0
	for _, task := range s.tasks {
		trajectory := s.solve(t, task, task.Solution)
		if trajectory.Stop != envace.StopDone || trajectory.Check == nil || !trajectory.Check.Success() {
			t.Fatalf("task %s: the solution, said in words, ends %q with %+v", task.ID, trajectory.Stop, trajectory.Check)
		}
		prompt, err := s.format.Prompt(&trajectory.Transcript, audit.ActRole, audit.Call{})
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, len(prompt))
		if words := s.format.Vocabulary.Decode(prompt); slices.Contains(words, "<unknown>") {
			t.Fatalf("task %s has a word that was never seen: %q", task.ID, words)
		}
		for i, output := range trajectory.Outputs() {
			if got := s.format.ReadAct(*output); got.Fault != envace.FaultNone {
				t.Fatalf("task %s, output %d: %+v", task.ID, i, got)
			}
		}
		grade, err := tiny.Checklist{Tools: s.tools, Rules: s.rules}.Grade(t.Context(), trajectory)
		if err != nil || !grade.Success || grade.Reward != 1 {
			t.Fatalf("task %s: solved in the sandbox, graded %+v, %v", task.ID, grade, err)
		}
	}
	if longest > 256 {
		t.Errorf("a solved task takes %d tokens, the context is 256", longest)
	}
}

func TestChecklistBelievesTheTranscript(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	at := slices.IndexFunc(s.tasks, func(task audit.Task) bool {
		var facts struct{ Kind string }
		return json.Unmarshal(task.User, &facts) == nil && facts.Kind == "else"
	})
	task := s.tasks[at]
	solved := s.solve(t, task, task.Solution)
	call := audit.Call{Tool: "cancel", Arguments: json.RawMessage(`{"user":"U1","order":"#01","reason":"mistake"}`)}
	cases := []struct {
		change func(*envace.Trajectory)
		want   envace.Grade
		reason string
	}{
		{func(*envace.Trajectory) {}, envace.Grade{Reward: 1, Success: true}, "the second wish came true without the first being tried"},
		{func(tr *envace.Trajectory) {
			tr.Items = append(tr.Items, envace.Item{Answer: &envace.Answer{Call: call, Raw: []byte(`{"order":"#01"}`)}})
		}, envace.Grade{}, "something else was written as well"},
		{func(tr *envace.Trajectory) {
			tr.Items = append(tr.Items, envace.Item{Answer: &envace.Answer{Call: call, Raw: envace.Refusal(audit.Conflict, "")}})
		}, envace.Grade{Reward: 1, Success: true}, "something else was refused"},
		{func(tr *envace.Trajectory) { tr.Stop = envace.StopTurns }, envace.Grade{}, "it never said that it was done"},
		{func(tr *envace.Trajectory) { tr.Stop = envace.StopWorld }, envace.Grade{Unknown: true, Reason: "world"}, "no world, no reward"},
		{func(tr *envace.Trajectory) { tr.Items = nil }, envace.Grade{}, "nothing was done"},
	}
	for _, c := range cases {
		copied := *solved
		copied.Items = slices.Clone(solved.Items)
		c.change(&copied)
		got, err := tiny.Checklist{Tools: s.tools, Rules: s.rules}.Grade(t.Context(), &copied)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.reason, got, err, c.want)
		}
	}
}

func TestReadRehearsal(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	tests := []struct {
		words []string
		raw   string
		fault envace.Fault
	}{
		{[]string{"{", "order", "#01", "items", "[", "P1", "P2", "]", "total", "30", "}", "<end>"}, `{"order":"#01","items":["P1","P2"],"total":30}`, envace.FaultNone},
		{[]string{"{", "error", "{", "code", "not_found", "}", "}", "<end>"}, `{"error":{"code":"not_found"}}`, envace.FaultNone},
		{[]string{"{", "order", "}", "<end>"}, `[{ order }]`, envace.FaultMalformed},
		{[]string{"{", "order", "#01", "}", "]", "<end>"}, `{"order":"#01"}`, envace.FaultSeveral},
		{[]string{"<end>"}, ``, envace.FaultEmpty},
		{[]string{"[", "?", "true", "["}, `[[ ? true []`, envace.FaultMalformed},
	}
	for _, test := range tests {
		got := s.format.ReadRehearsal(envace.Output{Tokens: s.format.Vocabulary.Encode(test.words), LogProbs: []float32{0, 0}})
		if string(got.Raw) != test.raw || got.Fault != test.fault || *got.Confidence != 1 {
			t.Errorf("%q: %s, fault %q", test.words, got.Raw, got.Fault)
		}
	}
}

func TestVocabularyFile(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	path := filepath.Join(t.TempDir(), "words.json")
	if err := s.format.Vocabulary.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := tiny.Read(path)
	if err != nil || got.Size() != s.format.Vocabulary.Size() || got.ID("#07") != s.format.Vocabulary.ID("#07") {
		t.Errorf("%d words came back, %v", got.Size(), err)
	}
}
