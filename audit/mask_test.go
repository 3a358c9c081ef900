package audit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"understudy/audit"
)

// masking is one way to a mask reason: what is wrong, and with which episode.
type masking struct {
	reason  audit.MaskReason
	config  func(*audit.Config, *faulty)
	rules   string
	ep      func() *audit.Episode
	because string
}

func read() *audit.Episode {
	ep := calls(audit.Forced, call("get_wallet", `{"user_id":"u1"}`))
	ep.Actions[0].Rehearsal = answer(`{"wallet":1010}`)
	return ep
}

func answers(o *audit.Observation, raw string) { o.Raw, o.Delta = []byte(raw), nil }

func status(s audit.Status, family audit.Family) func(*audit.Config, *faulty) {
	return func(_ *audit.Config, f *faulty) {
		f.called = func(_ context.Context, _ int, _ audit.Call, o *audit.Observation) error {
			o.Status = s
			if family != "" {
				o.Error = &audit.CallError{Family: family, Message: "injected"}
			}
			return nil
		}
	}
}

// hang is a sandbox that does not answer before it is told to stop.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func maskings() []masking {
	return []masking{
		{reason: audit.MaskSandboxFault, config: status(audit.StatusFault, ""), because: "the sandbox broke"},
		{reason: audit.MaskSandboxFault, config: status("dreaming", ""), because: "a status that nobody knows"},
		{reason: audit.MaskSandboxFault, config: func(_ *audit.Config, f *faulty) {
			f.called = func(context.Context, int, audit.Call, *audit.Observation) error { panic("a defect") }
		}, because: "the sandbox panics"},
		{reason: audit.MaskSandboxUnknown, config: status(audit.StatusUnknown, ""), because: "it may have happened"},
		{reason: audit.MaskSandboxUnknown, config: func(c *audit.Config, f *faulty) {
			c.CallTimeout = time.Millisecond
			f.asked = hang
		}, because: "no answer in time"},
		{reason: audit.MaskSandboxUnavailable, config: func(_ *audit.Config, f *faulty) {
			f.open = func(context.Context, audit.Start) error { return errDown }
		}, because: "a session cannot be opened"},
		{reason: audit.MaskSandboxUnavailable, config: func(c *audit.Config, f *faulty) {
			c.OpenTimeout = time.Millisecond
			f.open = func(ctx context.Context, _ audit.Start) error { return hang(ctx) }
		}, because: "a session that does not open in time"},
		{reason: audit.MaskSandboxUnavailable, config: func(c *audit.Config, f *faulty) {
			c.OpenTimeout = time.Millisecond
			f.listed = hang
		}, because: "tools that are not listed in time"},
		{reason: audit.MaskSandboxUnavailable, config: func(_ *audit.Config, f *faulty) {
			f.called = func(context.Context, int, audit.Call, *audit.Observation) error { return errDown }
		}, because: "the connection breaks"},
		{reason: audit.MaskRehearseUnavailable, ep: func() *audit.Episode {
			ep := read()
			ep.Actions[0].Rehearsal = nil
			return ep
		}, because: "no rehearsal, no rehearser"},
		{reason: audit.MaskRehearseUnavailable, config: func(c *audit.Config, _ *faulty) {
			c.Rehearser = rehearserFunc(func(context.Context, audit.RehearseRequest) ([]audit.Rehearsal, error) { return nil, errDown })
		}, ep: func() *audit.Episode {
			ep := read()
			ep.Actions[0].Rehearsal = nil
			return ep
		}, because: "the model server is down"},
		{reason: audit.MaskRehearseUnavailable, config: func(c *audit.Config, _ *faulty) {
			c.Rehearser = rehearserFunc(func(context.Context, audit.RehearseRequest) ([]audit.Rehearsal, error) { panic("a defect") })
		}, ep: func() *audit.Episode {
			ep := read()
			ep.Actions[0].Rehearsal = nil
			return ep
		}, because: "the rehearser panics, in a goroutine of its own"},
		{reason: audit.MaskReferenceInvalid, ep: func() *audit.Episode {
			ep := calls(audit.Forced, call("get_wallet", `{"user_id":"nobody"}`))
			ep.Actions[0].Rehearsal = answer(`{"wallet":1}`)
			ep.Actions[0].Recorded = &audit.Recorded{Raw: []byte(`{"wallet":1}`)}
			return ep
		}, because: "a recorded success that the sandbox refuses is not charged to the rehearser"},
		{reason: audit.MaskReferenceInvalid, ep: func() *audit.Episode {
			ep := read()
			ep.Mode = audit.Canary
			return ep
		}, because: "a canary that the sandbox does not refuse"},
		{reason: audit.MaskKnownDefect, rules: "defects: [{environment: shop, tool: get_wallet, note: counts twice}]", because: "a listed defect"},
		{
			reason: audit.MaskKnownDefect, rules: "defects: [{environment: shop, versions: ['1'], tool: get_wallet, pointer: /wallet, note: counts twice}]",
			ep: func() *audit.Episode {
				ep := read()
				ep.Actions[0].Rehearsal = answer(`{"wallet":7}`)
				return ep
			}, because: "the difference lies where the defect is",
		},
		{reason: audit.MaskTransient, config: status(audit.StatusRefused, audit.Transient), because: "a time-out of a backend proves nothing"},
		{reason: audit.MaskTransient, config: status(audit.StatusRefused, audit.Internal), because: "nor does its crash"},
		{reason: audit.MaskHistory, ep: func() *audit.Episode {
			ep := read()
			ep.Actions[0].Step = 3
			return ep
		}, because: "the first actions are missing"},
		{reason: audit.MaskUnrepresentable, rules: "format: execution_result", config: func(_ *audit.Config, f *faulty) {
			f.called = func(_ context.Context, _ int, _ audit.Call, o *audit.Observation) error {
				answers(o, `"1010"`)
				return nil
			}
		}, because: "an execution result is an object or an array"},
		{reason: audit.MaskOversize, config: func(_ *audit.Config, f *faulty) {
			f.called = func(_ context.Context, _ int, _ audit.Call, o *audit.Observation) error {
				answers(o, `"`+strings.Repeat("x", 2<<20)+`"`)
				return nil
			}
		}, because: "the real answer is over 1 MiB"},
		{reason: audit.MaskCapture, config: func(_ *audit.Config, f *faulty) {
			f.called = func(_ context.Context, _ int, _ audit.Call, o *audit.Observation) error {
				answers(o, `{"wallet":10`)
				return nil
			}
		}, because: "the real answer is cut"},
		{reason: audit.MaskCapture, ep: func() *audit.Episode {
			ep := read()
			ep.Environment = ""
			ep.Actions[0].Recorded = &audit.Recorded{Raw: []byte(`{"wallet":10`)}
			return ep
		}, because: "without a sandbox the recorded answer is the reference, and it is cut"},
		{reason: audit.MaskNotSampled, config: func(c *audit.Config, _ *faulty) {
			c.Inclusion = func(audit.Tool, *audit.Action) float64 { return 0.02 }
			c.Secret = []byte("a secret that leaves this key out")
		}, because: "π decided against it"},
		{reason: audit.MaskOverLimit, config: func(c *audit.Config, _ *faulty) { c.Limits.CallsPerMessage = 1 }, ep: func() *audit.Episode {
			ep := calls(audit.Forced, call("get_wallet", `{"user_id":"u0"}`), call("get_wallet", `{"user_id":"u1"}`))
			for i := range ep.Actions {
				ep.Actions[i].Message, ep.Actions[i].Rehearsal = 0, answer(`{"wallet":1000}`)
			}
			return ep
		}, because: "more calls in one message than are audited"},
		{reason: audit.MaskOverBudget, config: func(c *audit.Config, _ *faulty) { c.Budget = time.Nanosecond }, because: "a budget that is smaller than any call"},
	}
}

func TestEveryMaskReasonIsReached(t *testing.T) {
	t.Parallel()
	reached := map[audit.MaskReason]bool{}
	for _, tc := range maskings() {
		reached[tc.reason] = true
		t.Run(string(tc.reason)+"/"+tc.because, func(t *testing.T) {
			t.Parallel()
			env := faulty{Environment: shop(t, 1)}
			rules, err := audit.ParseRules([]byte(tc.rules), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			config := audit.Config{Rules: func(string) *audit.Rules { return rules }}
			if tc.config != nil {
				tc.config(&config, &env)
			}
			config.Opener = opener{"shop": env}
			ep := read()
			if tc.ep != nil {
				ep = tc.ep()
			}
			pairs := episode(t, newAuditor(t, config), ep)
			v := pairs[len(pairs)-1].Verdict
			if v.Masked != tc.reason {
				t.Fatalf("masked %q (%s), verdict %+v, want %s", v.Masked, v.MaskDetail, v, tc.reason)
			}
			if v.Scores.Phi != nil || v.FalseSuccess || v.Scores.LeafF1 != nil || v.Severity != 0 {
				t.Errorf("a masked verdict has numbers: %+v", v)
			}
		})
	}
	for _, reason := range audit.MaskReasons() {
		if reason == audit.MaskNoise {
			continue // people mask with it, never an audit: the ledger's tests of marks
		}
		if !reached[reason] && reason != audit.MaskUnobservable { // that one masks φ alone: TestAnUnobservableWriteHasNoPhi
			t.Errorf("no test reaches %s", reason)
		}
	}
}

func TestAnUnobservableWriteHasNoPhi(t *testing.T) {
	t.Parallel()
	ep := calls(audit.Forced, call("purge_note", `{"user_id":"u0","order_id":"W100"}`))
	ep.Actions[0].Rehearsal = answer(`{"done":true}`)
	p := episode(t, newAuditor(t, audit.Config{}), ep)[0]
	s := p.Verdict.Scores
	if s.Phi != nil || s.PhiMask != audit.MaskUnobservable || s.EffectF1 != nil {
		t.Errorf("%+v: what cannot be seen is not a match", s)
	}
	if !p.Verdict.Scored() || *s.LeafF1 != 1 {
		t.Errorf("%+v: the answer itself was compared", p.Verdict)
	}
	refused := calls(audit.Forced, call("purge_note", `{"user_id":"u1","order_id":"W100"}`))
	refused.Actions[0].Rehearsal = answer(`{"done":true}`)
	v := episode(t, newAuditor(t, audit.Config{}), refused)[0].Verdict
	if v.Scores.Phi == nil || *v.Scores.Phi != 0 || v.Severity != audit.S5 {
		t.Errorf("%+v: a false success is never hidden by an unobservable effect", v)
	}
}
