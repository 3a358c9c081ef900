package audit_test

import (
	"context"
	"strings"
	"testing"

	"understudy/audit"
)

// A policy that learned version 1 meets version 2, where big orders can no
// longer be cancelled.
func TestAcrossVersions(t *testing.T) {
	t.Parallel()
	old, changed := shop(t, 1), shop(t, 2)
	// W103 has 7 pieces, W100 one, W106 four, W109 one.
	cancel := func(user, order string) audit.Call {
		return call("cancel_order", `{"user_id":"`+user+`","order_id":"`+order+`","reason":"mistake"}`)
	}
	stale := audit.NewDemoRehearser(old, audit.Start{}, 1)
	learner := rehearserFunc(func(ctx context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
		for _, turn := range req.History { // notices the change once it has seen it
			if strings.Contains(string(turn.Answer), "more than 5 pieces") {
				return audit.NewDemoRehearser(changed, audit.Start{}, 1).Rehearse(ctx, req)
			}
		}
		return stale.Rehearse(ctx, req)
	})
	episodes := []audit.Episode{
		*calls(audit.Forced, cancel("u0", "W100"), cancel("u3", "W103"), cancel("u3", "W103"), cancel("u3", "W103")),
		*calls(audit.Forced, cancel("u6", "W106")),
	}
	episodes[1].ID, episodes[1].PromptGroup = "e2", "g2"
	for _, tc := range []struct {
		name      string
		rehearser audit.Rehearser
		changed   int
		stale     float64
		calls     float64
	}{
		// The first refusal differs by the rule; the repeats differ too, for under
		// version 1 the order is cancelled by then.
		{"never learns", stale, 3, 1, 10},
		{"learns from the first refusal", learner, 3, 1. / 3, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := newAuditor(t, audit.Config{Opener: opener{"shop@1": old, "shop@2": changed}, Rehearser: tc.rehearser})
			committed := map[string]int{}
			all, err := a.AcrossVersions(t.Context(), "shop@1", []string{"shop@1", "shop@2"}, episodes, func(ref string, pairs []audit.Pair) error {
				committed[ref] += len(pairs)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			same, other := all[0], all[1]
			if same.Changed != 0 || same.Stale.Defined() {
				t.Errorf("the base beside itself: %+v", same)
			}
			if other.Changed != tc.changed || other.Stale.Value != tc.stale || other.Calls.Value != tc.calls {
				t.Errorf("changed %d, stale %v, calls %v, want %d, %v, %v", other.Changed, other.Stale, other.Calls, tc.changed, tc.stale, tc.calls)
			}
			if other.Version == same.Version || other.Digest == same.Digest || committed["shop@2"] != 5 || committed["shop@1"] != 10 {
				t.Errorf("versions %s and %s, committed %v", same.Version, other.Version, committed)
			}
		})
	}
}

// blind serves tasks of the default world, and shows no state.
type blind struct{ audit.Environment }

func (b blind) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	start.Task = ""
	session, err := b.Environment.Open(ctx, start)
	return struct{ audit.Session }{session}, err
}

// An episode whose task is not among a version's is missing; a version that is not
// there, and a run that is gone, are errors.
func TestWhatIsMissingIsATask(t *testing.T) {
	t.Parallel()
	episodes := []audit.Episode{*calls(audit.Forced, call("get_wallet", `{"user_id":"u0"}`))}
	episodes[0].Start.Task = "t1"
	episodes[0].Actions[0].Rehearsal = answer(`{"wallet":1000}`)
	a := newAuditor(t, audit.Config{Opener: opener{"shop@1": blind{shop(t, 1)}, "shop@2": blind{shop(t, 2)}}})
	gone := &audit.Error{Code: audit.CodeNotFound, Message: "run was dropped"}
	for name, row := range map[string]struct {
		other string
		keep  func(ref string, pairs []audit.Pair) error
	}{
		"no such version": {"shop@9", nil},
		"the run of it is gone": {"shop@2", func(ref string, _ []audit.Pair) error {
			if ref == "shop@2" {
				return gone
			}
			return nil
		}},
	} {
		all, err := a.AcrossVersions(t.Context(), "shop@1", []string{row.other}, episodes, row.keep)
		if audit.ErrorCode(err) != audit.CodeNotFound {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}
