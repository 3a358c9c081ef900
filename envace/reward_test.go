package envace_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
)

func TestStateChecks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		check     audit.CheckResult
		net, raw  float64
		succeeded bool
		reason    string
	}{
		{audit.CheckResult{Checks: 4, Passed: 1, Initial: 1}, 0, .25, false, "what held at the start earns nothing"},
		{audit.CheckResult{Checks: 4, Passed: 3, Initial: 1}, 2.0 / 3, .75, false, "part of it"},
		{audit.CheckResult{Checks: 4, Passed: 4, Initial: 1}, 1, 1, true, "all"},
		{audit.CheckResult{Checks: 4, Passed: 0, Initial: 1}, 0, 0, false, "worse than nothing is not below 0"},
		{audit.CheckResult{Checks: 2, Passed: 2, Initial: 2}, 0, 1, true, "nothing was to do"},
		{audit.CheckResult{}, 0, 0, false, "no checks, no success"},
	}
	for _, test := range tests {
		trajectory := &envace.Trajectory{Stop: envace.StopDone, Check: &test.check}
		for raw, want := range map[bool]float64{false: test.net, true: test.raw} {
			got, err := envace.StateChecks{Raw: raw}.Grade(t.Context(), trajectory)
			if err != nil || got.Reward != want || got.Success != test.succeeded {
				t.Errorf("%s, raw %v: %+v, %v, want %v", test.reason, raw, got, err, want)
			}
		}
	}
	got, err := envace.StateChecks{}.Grade(t.Context(), &envace.Trajectory{Stop: envace.StopWorld, Err: errors.New("sandbox down")})
	if err != nil || !got.Unknown || got.Reason != "world: sandbox down" {
		t.Errorf("a world that failed: %+v, %v", got, err)
	}
	if _, err := (envace.StateChecks{}).Grade(t.Context(), &envace.Trajectory{Stop: envace.StopDone}); err == nil {
		t.Error("a world without checks was graded")
	}
	done := audit.CheckResult{Checks: 1, Passed: 1}
	got, err = envace.StateChecks{}.Grade(t.Context(), &envace.Trajectory{Stop: envace.StopErrorReply, Check: &done})
	if err != nil || got != (envace.Grade{}) {
		t.Errorf("ended by a rehearsed error: %+v, %v: the published code pays 0", got, err)
	}
}

// ledgerWorld is an environment that writes down which calls were made, and passes the
// check of a task when one of "pay" was. A call of "crash" breaks it.
type ledgerWorld struct {
	audit.Environment
	made *[]string
	down error // of opening it
}

func (w ledgerWorld) Open(context.Context, audit.Start) (audit.Session, error) {
	return ledgerSession{made: w.made}, w.down
}

type ledgerSession struct {
	audit.Session
	made *[]string
}

func (s ledgerSession) Call(_ context.Context, call audit.Call) (audit.Observation, error) {
	*s.made = append(*s.made, call.Tool)
	if call.Tool == "crash" {
		return audit.Observation{Status: audit.StatusFault, Raw: []byte("out of steps")}, nil
	}
	return audit.Observation{Status: audit.StatusOK, Raw: []byte("{}")}, nil
}

func (s ledgerSession) Check(context.Context, string) (audit.CheckResult, error) {
	result := audit.CheckResult{Checks: 1}
	if slices.Contains(*s.made, "pay") {
		result.Passed = 1
	}
	return result, nil
}

func (ledgerSession) Close() error { return nil }

// What was rehearsed is paid for what its calls do in the real world: those that were
// made, and a world that breaks meanwhile pays nobody and fails nobody.
func TestStateChecksExecute(t *testing.T) {
	t.Parallel()
	tests := []struct {
		act    string
		down   error
		made   string
		want   envace.Grade
		reason string
	}{
		{"calls ab", nil, "a b", envace.Grade{}, "the task was not done"},
		{"call pay", nil, "pay", envace.Grade{Reward: 1, Success: true}, "it was"},
		{"call crash", nil, "crash", envace.Grade{Unknown: true, Reason: "call crash: the world did not answer: out of steps"}, "the sandbox broke"},
		{"call pay", errors.New("no sandbox"), "", envace.Grade{Unknown: true, Reason: "open the world of task t: the world did not answer: no sandbox"}, "there is none"},
	}
	for _, test := range tests {
		var made []string
		s := &script{act: []string{test.act, "reply"}, answer: func(audit.Call, *envace.Transcript) string { return `{}` }}
		trajectory, err := rolloutOf(t, s).Run(t.Context(), audit.Task{ID: "t"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := envace.StateChecks{Environment: ledgerWorld{made: &made, down: test.down}}.Grade(t.Context(), trajectory)
		if err != nil || got != test.want || strings.Join(made, " ") != test.made {
			t.Errorf("%s: %+v, %v, made %v; want %+v after %q", test.reason, got, err, made, test.want, test.made)
		}
	}
}

// A call over the limit of parallel ones was refused: executing the rollout does not
// make it.
func TestExecuteLeavesOutWhatWasDropped(t *testing.T) {
	t.Parallel()
	var made []string
	s := &script{act: []string{"calls abcd", "reply"}, answer: func(audit.Call, *envace.Transcript) string { return `{}` }}
	trajectory, err := rolloutOf(t, s).Run(t.Context(), audit.Task{ID: "t"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(trajectory.History()) != 4 {
		t.Errorf("the agent reads %d answers, refusals included, want 4", len(trajectory.History()))
	}
	if _, err := envace.Execute(t.Context(), ledgerWorld{made: &made}, trajectory); err != nil || !slices.Equal(made, []string{"a", "b"}) {
		t.Errorf("executed %v, %v; two of four calls were made", made, err)
	}
}
