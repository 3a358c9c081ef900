package main

import (
	"errors"
	"testing"
	"time"
)

// A stall is the machine's fault and hides no failure that comes after it.
func TestStallsHideNothing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		tries  []string // what each says; "" passes
		clean  bool
		stalls int
		reason string
	}{
		{[]string{""}, true, 0, "it ran its time"},
		{[]string{"stall", ""}, true, 1, "the machine was busy once"},
		{[]string{"bad input"}, false, 0, "an input fails it"},
		{[]string{"stall", "bad input"}, false, 1, "an input fails it after a stall"},
		{[]string{"context deadline exceeded"}, true, 0, "the time ran out while an input was under way"},
	} {
		var r result
		r.spend(t.Context(), time.Hour, func(time.Duration) (string, error) {
			said := row.tries[0]
			row.tries = row.tries[1:]
			if said == "" {
				return "", nil
			}
			return said, errors.New("exit status 1")
		}, func(said string) bool { return said == "stall" })
		if r.clean != row.clean || r.stalls != row.stalls {
			t.Errorf("%s: clean %v after %d stalls, want %v after %d", row.reason, r.clean, r.stalls, row.clean, row.stalls)
		}
	}
}
