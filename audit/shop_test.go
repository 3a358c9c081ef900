package audit_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// shop is the environment of these tests: testdata/shop in the real engine.
func shop(tb testing.TB, version int) *starlark.Environment {
	tb.Helper()
	domain, err := starlark.Load(os.DirFS("testdata"), "shop", starlark.Options{Version: version})
	if err != nil {
		tb.Fatalf("load the shop: %v", err)
	}
	env := starlark.NewEnvironment(domain)
	tb.Cleanup(func() { _ = env.Close() })
	return env
}

// opener finds environments by reference.
type opener map[string]audit.Environment

func (o opener) Environment(_ context.Context, ref string) (audit.Environment, error) {
	env, ok := o[ref]
	if !ok {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: "no environment " + ref, Hint: "try shop"}
	}
	return env, nil
}

func newAuditor(tb testing.TB, config audit.Config) *audit.Auditor {
	tb.Helper()
	if config.Opener == nil {
		config.Opener = opener{"shop": shop(tb, 1)}
	}
	a, err := audit.New(config)
	if err != nil {
		tb.Fatalf("new auditor: %v", err)
	}
	tb.Cleanup(func() { _ = a.Close() })
	return a
}

func call(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}

// answer is a rehearsal brought along.
func answer(raw string) *audit.Rehearsal { return &audit.Rehearsal{Raw: []byte(raw)} }

// calls is an episode of the shop with the given calls, in order.
func calls(mode audit.Mode, all ...audit.Call) *audit.Episode {
	ep := &audit.Episode{ID: "e1", PromptGroup: "g1", Policy: "p", Environment: "shop", Mode: mode}
	for i, c := range all {
		ep.Actions = append(ep.Actions, audit.Action{Step: i, Message: i, Call: c})
	}
	return ep
}

// spoiled fills an episode with what a demo rehearser makes of the truth.
func spoiled(tb testing.TB, ep *audit.Episode, shares ...audit.Share) *audit.Episode {
	tb.Helper()
	d := audit.NewDemoRehearser(shop(tb, 1), ep.Start, 7, shares...)
	if err := d.Fill(tb.Context(), ep); err != nil {
		tb.Fatalf("fill the episode: %v", err)
	}
	return ep
}

func episode(tb testing.TB, a *audit.Auditor, ep *audit.Episode) []audit.Pair {
	tb.Helper()
	pairs, err := a.Episode(tb.Context(), ep)
	if err != nil {
		tb.Fatalf("audit episode: %v", err)
	}
	return pairs
}

// mix is an episode with as many successes as refusals, reads and writes.
func mix() *audit.Episode {
	return calls(audit.Forced,
		call("get_order", `{"user_id":"u0","order_id":"W100"}`),
		call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`),
		call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`), // conflict
		call("get_wallet", `{"user_id":"u3"}`),
		call("cancel_order", `{"user_id":"u3","order_id":"W103","reason":"no_need"}`),
		call("get_order", `{"user_id":"u1","order_id":"W100"}`), // authorization
		call("find_orders", `{"user_id":"u6"}`),
		call("find_orders", `{"user_id":"u13"}`),                                      // ok_empty
		call("cancel_order", `{"user_id":"u1","order_id":"W101","reason":"mistake"}`), // precondition
		call("get_order", `{"user_id":"u1","order_id":"W999"}`),                       // not_found
		call("place_order", `{"user_id":"u2","sku":"s1","pieces":2}`),
		call("place_order", `{"user_id":"u2","sku":"s1","pieces":99}`), // schema_invalid
		call("cancel_orders", `{}`),                                    // unknown_tool
		call("get_order", `{"user_id":`),                               // malformed_call
	)
}
