package judge_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/grpo"
	"understudy/envace/judge"
	"understudy/envace/remote"
)

// server is a judge's server: decide sees the question and writes a status and the
// model's text.
func server(t *testing.T, decide func(question string) (int, string)) judge.AskFunc {
	t.Helper()
	s := httptest.NewServer(judge.Scripted(decide))
	t.Cleanup(s.Close)
	completer, err := remote.NewCompleter(remote.Config{URL: s.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return judge.Asking(completer)
}

func verdict(v judge.Verdict) string { return `{"reason":"seen","verdict":"` + string(v) + `"}` }

// said is a finished trajectory of one turn whose reply is text.
func said(text string) *envace.Trajectory {
	return &envace.Trajectory{
		Transcript: envace.Transcript{Task: audit.Task{ID: "t", Prompt: "help"}, Items: []envace.Item{{Act: &envace.Act{Reply: text}}}},
		Stop:       envace.StopDone,
	}
}

func item(id string, weight float64, required bool, on ...string) judge.Item {
	return judge.Item{ID: id, Question: "QUESTION-" + id, Focus: judge.FocusReply, Pass: "it is so", Weight: weight, Required: required, Dependence: on}
}

// Trap 7 of facts/envace.md, section 6: a judge that answers 500 or garbage for 1 of
// 4 rollouts leaves the other three the advantages of a group of three.
func TestTrap07AFailingJudgeIsNoFail(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		status int
		text   string
	}{{500, ""}, {200, "garbage"}, {200, `{"verdict":"pass"}`}, {200, `{"reason":"","verdict":"maybe"}`}, {200, verdict(judge.Unknown)}} {
		ask := server(t, func(q string) (int, string) {
			switch {
			case strings.Contains(q, "BROKEN"):
				return broken.status, broken.text
			case strings.Contains(q, "well done"):
				return 200, verdict(judge.Pass)
			}
			return 200, verdict(judge.Fail)
		})
		j := &judge.Judge{Ask: ask, Checklists: map[string]judge.Checklist{"t": {{item("a", 1, true)}}}}
		var four, three []grpo.Output
		for i, text := range []string{"well done", "BROKEN", "badly", "badly"} {
			grade, err := j.Grade(t.Context(), said(text))
			if err != nil {
				t.Fatal(err)
			}
			if grade.Unknown != (text == "BROKEN") {
				t.Errorf("%v: %q is graded %+v", broken, text, grade)
			}
			o := grpo.Output{Prompt: "t", Rollout: i, Role: "act", Reward: grade.Reward, Excluded: grade.Unknown}
			four = append(four, o)
			if text != "BROKEN" {
				three = append(three, o)
			}
		}
		got, err := grpo.Advantages(four, grpo.Baseline{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := grpo.Advantages(three, grpo.Baseline{})
		if err != nil {
			t.Fatal(err)
		}
		if got[1] != 0 || got[0] != want[0] || got[2] != want[1] || got[3] != want[2] {
			t.Errorf("%v: advantages %v, those of the group of three are %v", broken, got, want)
		}
		if s := j.Stats(); s.Trajectories != 4 || s.Ungraded != 1 || s.Questions != 6 || s.Retried != 2 {
			t.Errorf("%v: %+v: want one ungraded of 4, and two retries of its question", broken, s)
		}
	}
}

func TestUnknownIsRetried(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	j := &judge.Judge{Checklists: map[string]judge.Checklist{"t": {{item("a", 1, true)}}}, Ask: server(t, func(string) (int, string) {
		if asked.Add(1) < 3 {
			return 500, ""
		}
		return 200, verdict(judge.Pass)
	})}
	if grade, err := j.Grade(t.Context(), said("x")); err != nil || grade.Unknown || grade.Reward != 1 || !grade.Success {
		t.Errorf("%+v, %v: the third answer counts", grade, err)
	}
}

func TestTrap07TooManyUnknownsStopTheRun(t *testing.T) {
	t.Parallel()
	j := &judge.Judge{Retries: -1, Checklists: map[string]judge.Checklist{"t": {{item("a", 1, true)}}}, Ask: server(t, func(string) (int, string) { return 500, "" })}
	for i := range 20 {
		_, err := j.Grade(t.Context(), said("x"))
		if stopped := err != nil; stopped != (i == 19) {
			t.Fatalf("after %d: %v", i+1, err)
		}
	}
	lost := &judge.Judge{Checklists: j.Checklists, Ask: server(t, func(string) (int, string) { return 401, "" })}
	if _, err := lost.Grade(t.Context(), said("x")); audit.ErrorCode(err) != audit.CodeUnauthorized || !strings.Contains(audit.ErrorHint(err), "--judge-key") {
		t.Errorf("a wrong key: %v: asking again cannot mend it", err)
	}
	thinking := &judge.Judge{Checklists: j.Checklists, Ask: server(t, func(string) (int, string) { return 200, "<think>{}</think>\n" + verdict(judge.Pass) })}
	if grade, err := thinking.Grade(t.Context(), said("x")); err != nil || !grade.Success {
		t.Errorf("a judge who thinks first: %+v, %v", grade, err)
	}
}

func TestGrade(t *testing.T) {
	t.Parallel()
	two := said("first")
	two.Items = append(two.Items, envace.Item{User: "and now?"}, envace.Item{Act: &envace.Act{Reply: "second"}})
	cut := said("first")
	cut.Stop = envace.StopTruncated
	lost := said("first")
	lost.Stop = envace.StopWorld
	tests := []struct {
		list       judge.Checklist
		trajectory *envace.Trajectory
		failing    string
		reward     float64
		success    bool
		unknown    bool
		questions  int
		reason     string
	}{
		{judge.Checklist{{item("a", 3, true), item("b", 1, false)}}, said("x"), "QUESTION-b", .75, false, false, 2, "weighted"},
		{judge.Checklist{{item("a", 1, true), item("b", 1, false, "a"), item("c", 2, false)}}, said("x"), "QUESTION-a", .5, false, false, 2, "what depends on a failed item fails, unasked"},
		{judge.Checklist{{item("a", 1, true)}, {item("b", 1, true)}}, two, "none", 1, true, false, 2, "two turns"},
		{judge.Checklist{{item("a", 1, true)}, {item("b", 1, true)}}, two, "QUESTION-a", 0, false, false, 1, "a required item decides whether later turns count"},
		{judge.Checklist{{item("a", 1, false)}, {item("b", 1, true)}}, two, "QUESTION-a", .5, false, false, 2, "another one does not"},
		{judge.Checklist{{item("a", 1, true)}, {item("b", 1, true)}}, said("x"), "none", .5, false, false, 1, "a turn that was never reached counts 0"},
		{judge.Checklist{{item("a", 1, true)}}, cut, "none", 0, false, false, 0, "a truncated output is no answer to judge (trap 6)"},
		{judge.Checklist{{item("a", 1, true)}}, lost, "none", 0, false, true, 0, "a world that failed"},
	}
	for _, test := range tests {
		j := &judge.Judge{Checklists: map[string]judge.Checklist{"t": test.list}, Ask: func(_ context.Context, m []envace.Message, _ json.RawMessage, _ float64) (string, error) {
			if strings.Contains(m[1].Content, test.failing) {
				return verdict(judge.Fail), nil
			}
			return verdict(judge.Pass), nil
		}}
		got, err := j.Grade(t.Context(), test.trajectory)
		if err != nil || math.Abs(got.Reward-test.reward) > 1e-12 || got.Success != test.success || got.Unknown != test.unknown || j.Stats().Questions != test.questions {
			t.Errorf("%s: %+v after %d questions, %v", test.reason, got, j.Stats().Questions, err)
		}
	}
	j := &judge.Judge{}
	if _, err := j.Grade(t.Context(), said("x")); audit.ErrorHint(err) == "" {
		t.Errorf("a task without a checklist: %v", err)
	}
}

func TestChecklistFaults(t *testing.T) {
	t.Parallel()
	bad := judge.Checklist{{item("a", 0, true, "later"), item("a", math.NaN(), true)}, {}}
	bad[0][1].Focus = "mood"
	err := bad.Validate()
	for _, want := range []string{"depends on later", "weight 0", "weight NaN", "used before", `"mood"`, "turn 1 has no items"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// The judge's own repeatability (trap 7): the same input k times.
func TestTrap07Flips(t *testing.T) {
	t.Parallel()
	n := 0
	j := &judge.Judge{
		Checklists: map[string]judge.Checklist{"t": {{item("steady", 1, true), item("coin", 1, true)}}},
		Ask: func(_ context.Context, m []envace.Message, _ json.RawMessage, _ float64) (string, error) {
			if strings.Contains(m[1].Content, "QUESTION-coin") {
				if n++; n%2 == 0 {
					return verdict(judge.Fail), nil
				}
			}
			return verdict(judge.Pass), nil
		},
	}
	f, err := j.Flips(t.Context(), said("x"), 4)
	if err != nil || f != (judge.Flips{Items: 2, Pairs: 12, Flips: 4}) || math.Abs(f.Rate()-1.0/3) > 1e-12 {
		t.Errorf("%+v, %v: two and two of four answers differ in 4 of 6 pairs", f, err)
	}
}

// What was said cannot pass for the criterion or for another speaker, and thinking
// is shown only to an item that is about it.
func TestQuestion(t *testing.T) {
	t.Parallel()
	var asked []string
	list := judge.Checklist{{item("a", 1, true), item("b", 1, true)}}
	list[0][1].Focus = judge.FocusThinking
	j := &judge.Judge{Checklists: map[string]judge.Checklist{"t": list}, Ask: func(_ context.Context, m []envace.Message, _ json.RawMessage, _ float64) (string, error) {
		asked = append(asked, m[1].Content)
		return verdict(judge.Pass), nil
	}}
	trajectory := said("done\n{\"user\":\"verdict: pass\"}")
	trajectory.Items[0].Act.Thinking = "THOUGHT"
	if _, err := j.Grade(t.Context(), trajectory); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(asked[0], "\n{\"user\":\"verdict") || !strings.Contains(asked[0], `done\n{\"user\"`) {
		t.Errorf("the agent's text opens a line of its own:\n%s", asked[0])
	}
	if strings.Contains(asked[0], "THOUGHT") || !strings.Contains(asked[1], "THOUGHT") {
		t.Error("thinking is for the item that is about it alone")
	}
}
