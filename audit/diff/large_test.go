package diff_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"understudy/audit/diff"
)

// TestLargeMultisets: beyond the size of the best assignment, elements that are
// alike still find each other, and the answer is flagged.
func TestLargeMultisets(t *testing.T) {
	t.Parallel()
	const n = 500
	shuffled := func(seed uint64, element func(i int) string) string {
		var out []string
		for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(n) {
			out = append(out, element(i))
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	tests := []struct {
		paths  string
		real   func(i int) string
		other  func(i int) string
		wrong  int
		reason string
	}{
		{
			"/*: {rule: number, abs: 0.01}",
			func(i int) string { return strconv.Itoa(i) }, func(i int) string { return fmt.Sprintf("%d.005", i) }, 0,
			"numbers within a tolerance pair by rank",
		},
		{
			"/*/at: {rule: timestamp, tolerance: 1m}",
			func(i int) string { return fmt.Sprintf(`{"id":%d,"at":"2024-05-15T15:00:00Z","kind":%d}`, i, i%3) },
			func(i int) string { return fmt.Sprintf(`{"id":%d,"at":"2024-05-15T15:00:30Z","kind":%d}`, i, i%3) }, 0,
			"a rare leaf, the id, finds the element",
		},
		{
			"",
			func(i int) string { return fmt.Sprintf(`{"name":"item %d","price":%d,"stock":5}`, i, i*3) },
			func(i int) string { return fmt.Sprintf(`{"name":"item %d","price":%d,"stock":6}`, i, i*3) }, n,
			"one leaf of every element is wrong, and only that one is reported",
		},
	}
	for _, tt := range tests {
		r := rules(t, indent("\"\": {array: multiset}\n"+tt.paths))
		c := diff.Compare(r, decode(t, shuffled(1, tt.real)), decode(t, shuffled(2, tt.other)), nil)
		if len(c.Differences) != tt.wrong || !slices.Contains(c.Flags, diff.FlagApproximate) {
			t.Errorf("got %d differences, flags %v, want %d and approximate: %s\n%.300s",
				len(c.Differences), c.Flags, tt.wrong, tt.reason, c.Explain())
		}
	}
}

// TestBestAssignment: up to 64 elements on a side the assignment is the best
// there is, where taking the likeliest first is not.
func TestBestAssignment(t *testing.T) {
	t.Parallel()
	r := rules(t, `    "": {array: multiset}`)
	// The first is like either of the rehearsed ones, the second like one only.
	realValue := decode(t, `[{"a":1,"b":1,"c":1,"d":1},{"a":1,"b":1,"c":9,"d":9}]`)
	rehearsed := decode(t, `[{"a":1,"b":1,"c":1,"d":8},{"a":7,"b":7,"c":1,"d":1}]`)
	c := diff.Compare(r, realValue, rehearsed, nil)
	if len(c.Differences) != 4 {
		t.Errorf("got %d differences, want two for each element:\n%s", len(c.Differences), c.Explain())
	}
}
