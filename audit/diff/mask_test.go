package diff_test

import (
	"testing"

	"understudy/audit/diff"
)

func TestMask(t *testing.T) {
	t.Parallel()
	realValue := decode(t, `{"date":"Mon, 11 Jan 2016 10:00:00 GMT","a":1,"l":[{"n":1},{"n":2}]}`)
	rehearsed := decode(t, `{"date":"Mon, 11 Jan 2016 10:00:01 GMT","a":1,"l":[{"n":3},{"n":4}]}`)
	masked, err := (*diff.Rules)(nil).Mask("/date", "/l/*/n")
	if err != nil {
		t.Fatal(err)
	}
	c := diff.Compare(masked, realValue, rehearsed, nil)
	if !c.Exact() || c.F1 != 1 {
		t.Errorf("got %s F1 %g, want nothing left", c.Explain(), c.F1)
	}
	if c.MaskedWeight <= 0.5 || c.MaskedWeight >= 1 {
		t.Errorf("got masked weight %g, want the share of a date and a list in three", c.MaskedWeight)
	}
}
