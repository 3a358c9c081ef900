package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"understudy/audit"
)

// A sandbox that panics in the middle of an episode costs what follows, not what
// was judged before, and not the process.
func TestPanicOfSandboxMasksWhatFollows(t *testing.T) {
	t.Parallel()
	env := faulty{Environment: shop(t, 1), called: func(_ context.Context, _ int, call audit.Call, _ *audit.Observation) error {
		if strings.Contains(string(call.Arguments), "u1") {
			panic("a defect")
		}
		return nil
	}}
	ep := calls(audit.Forced, call("get_wallet", `{"user_id":"u0"}`), call("get_wallet", `{"user_id":"u1"}`), call("get_wallet", `{"user_id":"u0"}`))
	for i := range ep.Actions {
		ep.Actions[i].Rehearsal = answer(`{"wallet":1000}`)
	}
	pairs := episode(t, newAuditor(t, audit.Config{Opener: opener{"shop": env}}), ep)
	if v := pairs[0].Verdict; !v.Scored() {
		t.Errorf("before the panic: %+v, want a verdict", v)
	}
	for _, p := range pairs[1:] {
		if v := p.Verdict; v.Masked != audit.MaskSandboxFault || !strings.Contains(v.MaskDetail, "panicked: a defect") {
			t.Errorf("from the panic on: masked %q (%s), want %s with the panic", v.Masked, v.MaskDetail, audit.MaskSandboxFault)
		}
	}
}

// A panic anywhere else in an audit is a permanent fault with its stack.
func TestPanicOfAuditIsPermanent(t *testing.T) {
	t.Parallel()
	env := faulty{Environment: shop(t, 1), open: func(context.Context, audit.Start) error { panic("a defect") }}
	_, err := newAuditor(t, audit.Config{Opener: opener{"shop": env}}).Episode(t.Context(), read())
	if audit.FaultOf(err) != audit.FaultPermanent || !strings.Contains(err.Error(), "panicked: a defect") || !strings.Contains(err.Error(), "fault_env_test.go") {
		t.Errorf("got %v, want a permanent fault with the panic and its stack", err)
	}
	if _, ok := errors.AsType[*audit.FaultError](err); !ok {
		t.Errorf("got %T, want a marked fault", err)
	}
}
