package audit_test

import (
	"encoding/json"
	"testing"
	"time"

	"understudy/audit"
)

// keyed audits a changed copy of one episode and returns the key of its last pair.
func keyed(t *testing.T, config audit.Config, change func(*audit.Episode)) audit.Digest {
	t.Helper()
	ep := calls(audit.Forced, call("get_wallet", `{"user_id":"u0"}`), call("get_wallet", `{"user_id":"u1"}`))
	for i := range ep.Actions {
		ep.Actions[i].Rehearsal = answer(`{"wallet":1010}`)
	}
	change(ep)
	pairs := episode(t, newAuditor(t, config), ep)
	return pairs[len(pairs)-1].Key
}

func TestTheKeyIsWhatIsAudited(t *testing.T) {
	t.Parallel()
	last := func(ep *audit.Episode) *audit.Action { return &ep.Actions[len(ep.Actions)-1] }
	base := keyed(t, audit.Config{}, func(*audit.Episode) {})
	for name, change := range map[string]func(*audit.Episode){
		"policy":        func(ep *audit.Episode) { ep.Policy = "q" },
		"checkpoint":    func(ep *audit.Episode) { ep.Checkpoint = 7 },
		"wire API":      func(ep *audit.Episode) { ep.WireAPI = "responses" },
		"prompt group":  func(ep *audit.Episode) { ep.PromptGroup = "g2" },
		"prompt":        func(ep *audit.Episode) { last(ep).Prompt = json.RawMessage(`[]`) },
		"initial state": func(ep *audit.Episode) { ep.Start.Seed = 9 },
		"world clock":   func(ep *audit.Episode) { ep.Start.Clock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
		"history":       func(ep *audit.Episode) { ep.Actions[0].Call = call("get_wallet", `{"user_id":"u2"}`) },
		"action":        func(ep *audit.Episode) { last(ep).Call = call("get_wallet", `{"user_id":"u5"}`) },
		"tool":          func(ep *audit.Episode) { last(ep).Call.Tool = "find_orders" },
		"role":          func(ep *audit.Episode) { last(ep).Call.Role = "user" },
		"mode":          func(ep *audit.Episode) { ep.Mode = audit.Open },
		"sample":        func(ep *audit.Episode) { last(ep).Sample = 1 },
		"rollout":       func(ep *audit.Episode) { ep.ID = "e2" },
	} {
		if keyed(t, audit.Config{}, change) == base {
			t.Errorf("%s does not take part in the key", name)
		}
	}
	rules, err := audit.ParseRules([]byte(`version: "2"`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if keyed(t, audit.Config{Rules: func(string) *audit.Rules { return rules }}, func(*audit.Episode) {}) == base {
		t.Error("the rules do not take part in the key")
	}
	if keyed(t, audit.Config{Opener: opener{"shop": shop(t, 2)}}, func(*audit.Episode) {}) == base {
		t.Error("the environment's version does not take part in the key")
	}
}

func TestTheKeyIsNotWhoAuditsOrWhen(t *testing.T) {
	t.Parallel()
	last := func(ep *audit.Episode) *audit.Action { return &ep.Actions[len(ep.Actions)-1] }
	base := keyed(t, audit.Config{}, func(*audit.Episode) {})
	for name, change := range map[string]func(*audit.Episode){
		"another worker and another time": func(*audit.Episode) {},
		"attempt":                         func(ep *audit.Episode) { last(ep).Attempt = 3 },
		"call id":                         func(ep *audit.Episode) { last(ep).CallID = "call_7" },
		"source line":                     func(ep *audit.Episode) { ep.Source = &audit.Source{Format: "x", File: "y", Line: 3} },
		"inclusion":                       func(ep *audit.Episode) { last(ep).Inclusion = .5 },
		"rehearsal":                       func(ep *audit.Episode) { last(ep).Rehearsal = answer(`{"wallet":3}`) },
		"recorded answer":                 func(ep *audit.Episode) { last(ep).Recorded = &audit.Recorded{Raw: []byte(`{"wallet":3}`)} },
		"task success":                    func(ep *audit.Episode) { ep.Success = new(true) },
		"spelling of the arguments":       func(ep *audit.Episode) { last(ep).Call.Arguments = json.RawMessage("{ \"user_id\" : \"u\\u0031\" }") },
		"replayed instead of audited":     func(ep *audit.Episode) { ep.Actions[0].Replay = true },
	} {
		if keyed(t, audit.Config{}, change) != base {
			t.Errorf("%s takes part in the key", name)
		}
	}
}

func TestMalformedArgumentsHaveAKey(t *testing.T) {
	t.Parallel()
	seen := map[audit.Digest]string{}
	for _, arguments := range []string{``, `{`, `{"a":1}`, `{"a":2}`, `"{"`, `null`, `{"a":1e999}`, "\xff"} {
		d := audit.CallDigest(audit.Call{Tool: "t", Arguments: json.RawMessage(arguments)})
		if other, ok := seen[d]; ok {
			t.Errorf("%q and %q have one digest", arguments, other)
		}
		seen[d] = arguments
	}
}
