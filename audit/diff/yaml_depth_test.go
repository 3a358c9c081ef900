package diff_test

import (
	"strings"
	"testing"

	"understudy/audit/diff"
)

func TestCheckYAML(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, fault string
		reason      string
	}{
		{"a: [1, {b: 2}]\n- - x\n", "", "ordinary"},
		{strings.Repeat("a: {b: [1]}\n", 1000), "", "long is not deep"},
		{"# " + strings.Repeat("-", 500) + "\na: 1\n", "", "a ruler"},
		{"a: 1\nb: " + strings.Repeat("[", 50_000), "line 2: nested deeper", "brackets"},
		{strings.Repeat("{a: ", 50_000), "line 1: nested deeper", "braces"},
		{"a:\n" + strings.Repeat("- ", 50_000), "line 2: nested deeper", "dashes"},
	}
	for _, test := range tests {
		err := diff.CheckYAML([]byte(test.text))
		if test.fault == "" && err != nil || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%s: %v", test.reason, err)
		}
	}
	if _, err := diff.ParsePolicy([]byte(strings.Repeat("[", 50_000))); err == nil {
		t.Error("a path policy nested without end was read")
	}
}
