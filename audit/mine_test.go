package audit_test

import (
	"fmt"
	"testing"

	"understudy/audit"
)

func TestEchoesAreMined(t *testing.T) {
	t.Parallel()
	var episodes []audit.Episode
	for i := range 60 {
		ep := calls(audit.Forced,
			call("place_order", fmt.Sprintf(`{"user_id":"u%d","sku":"s%d","pieces":%d}`, i%12, i%7, 1+i%5)),
			call("cancel_order", fmt.Sprintf(`{"user_id":"u%d","order_id":"W%d","reason":"mistake"}`, i*3%12, 100+i*3%60)),
			call("get_wallet", fmt.Sprintf(`{"user_id":"u%d"}`, i%12)),
		)
		episodes = append(episodes, *ep)
	}
	evidence, err := audit.MineEcho(t.Context(), shop(t, 1), episodes)
	if err != nil {
		t.Fatal(err)
	}
	proven := audit.ProvenEcho(evidence)
	for tool, want := range map[string]audit.EchoMap{
		"cancel_order": {"/status": "/orders/{order_id}/status", "/wallet": "/users/{user_id}/wallet"},
		"place_order":  {"/id": "/orders/{/id}/id", "/status": "/orders/{/id}/status", "/pieces": "/orders/{/id}/pieces"},
	} {
		for pattern, template := range want {
			if got := proven[tool][pattern]; got != template {
				t.Errorf("%s %s echoes %q, want %q (%+v)", tool, pattern, got, template, evidence)
			}
		}
	}
	if got, ok := proven["place_order"]["/note"]; ok && got != "/orders/{/id}/note" {
		t.Errorf("a chance equality was taken for an echo: %s", got)
	}
	few, err := audit.MineEcho(t.Context(), shop(t, 1), episodes[:40])
	if err != nil || len(audit.ProvenEcho(few)) != 0 {
		t.Errorf("40 runs prove nothing: %v %v", audit.ProvenEcho(few), err)
	}
}

// What the built-in domains declare is true on every run of their tasks, and a
// rehearser that tells the truth is full of effect there.
func TestDeclaredEchoesHoldAndTheTruthHasFullEffect(t *testing.T) {
	t.Parallel()
	for _, name := range domainNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, err := registry.Environment(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			episodes, err := audit.TaskEpisodes(t.Context(), env, 1, 12)
			if err != nil {
				t.Fatal(err)
			}
			evidence, err := audit.MineEcho(t.Context(), env, episodes)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range evidence {
				if e.Declared && e.Hits != e.Runs {
					t.Errorf("%s declares that %q echoes %q: true in %d of %d runs", e.Tool, e.Pattern, e.Template, e.Hits, e.Runs)
				}
			}
			a := newAuditor(t, audit.Config{Opener: registry})
			observed, writes := 0, 0
			for i := range episodes {
				ep := &episodes[i]
				if err := audit.NewDemoRehearser(env, ep.Start, 1).Fill(t.Context(), ep); err != nil {
					t.Fatal(err)
				}
				for k := range ep.Actions {
					ep.Actions[k].Rehearsal.StateDelta = nil // by echo alone
				}
				for _, p := range episode(t, a, ep) {
					if v := p.Verdict; !v.Scored() || v.Severity != audit.S0 {
						t.Errorf("%s step %d %s: %s %s %v %v %+v", ep.ID, p.Action.Step, p.Action.Call.Tool, v.Masked, v.MaskDetail, v.Severity, v.Differences, v.Scores)
					}
					if p.Effect == audit.Write {
						writes++
						observed += boolInt(p.Verdict.Scores.EffectF1 != nil)
					}
					if p.Executed == nil || !*p.Executed {
						t.Errorf("%s: the reference solution does not pass its checks", ep.ID)
					}
				}
			}
			t.Logf("%s: the effect of %d of %d writes is seen by echo", name, observed, writes)
		})
	}
}
