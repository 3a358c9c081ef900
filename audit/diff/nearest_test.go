package diff_test

import (
	"testing"

	"understudy/audit/diff"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		word   string
		valid  []string
		limit  int
		want   string
		reason string
	}{
		{"exat", []string{"enum", "exact"}, 2, "exact", "one letter is missing"},
		{"exact", []string{"enum", "exact"}, 0, "exact", "no edit is needed"},
		{"kitten", []string{"sitting"}, 3, "sitting", "three edits, by the textbook"},
		{"kitten", []string{"sitting"}, 2, "", "three edits are more than two"},
		{"ab", []string{"ax", "ay"}, 5, "ax", "the first of equals"},
		{"", []string{"a"}, 1, "a", "an empty word has a length, too"},
		{"a", nil, 9, "", "there is no word"},
	} {
		if got := diff.Nearest(row.word, row.valid, row.limit); got != row.want {
			t.Errorf("nearest to %q of %q within %d: got %q, want %q: %s", row.word, row.valid, row.limit, got, row.want, row.reason)
		}
	}
}
