package gate_test

import (
	"testing"

	"understudy/audit/gate"
)

func TestRegressed(t *testing.T) {
	t.Parallel()
	const p, f, i = gate.Pass, gate.Fail, gate.Inconclusive
	tests := []struct {
		history []gate.Status
		want    bool
		reason  string
	}{
		{[]gate.Status{f, f, p}, true, "it passed, and now fails for two windows"},
		{[]gate.Status{f, p, p}, false, "one bad look is no news yet"},
		{[]gate.Status{f, f, f, p}, false, "it was announced one verdict ago"},
		{[]gate.Status{f, i, f, i, p}, true, "what decides nothing is passed over"},
		{[]gate.Status{i, f, f, p}, false, "the newest verdict announces nothing"},
		{[]gate.Status{f, f}, false, "it never passed"},
		{[]gate.Status{p, f, f, p}, false, "it passes again"},
		{nil, false, "no history"},
	}
	for _, test := range tests {
		if got := gate.Regressed(test.history); got != test.want {
			t.Errorf("%v: got %t, want %t: %s", test.history, got, test.want, test.reason)
		}
	}
}
