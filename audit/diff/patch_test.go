package diff_test

import (
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"understudy/audit/diff"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	tests := []struct{ before, after, want, reason string }{
		{`{"a":1}`, `{"a":1}`, `[]`, "no change is an empty patch, not a nil one"},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `[]`, "the order of members is no change"},
		{`{"a":1}`, `{"a":1.0}`, `[{"op":"replace","path":"/a","value":1.0,"old":1}]`, "a program tells int from float"},
		{`{"a":1.50}`, `{"a":1.5}`, `[]`, "spelling of a float is no change"},
		{`{"a":null}`, `{}`, `[{"op":"remove","path":"/a","old":null}]`, "null is a value"},
		{`{}`, `{"a/b~":0}`, `[{"op":"add","path":"/a~1b~0","value":0}]`, "names are escaped"},
		{`[1,2,3,4,5]`, `[1,2,4,5]`, `[{"op":"remove","path":"/2","old":3}]`, "common ends are left out"},
		{`[1,2,3,4]`, `[1]`, `[{"op":"remove","path":"/3","old":4},{"op":"remove","path":"/2","old":3},{"op":"remove","path":"/1","old":2}]`, "removed from the end"},
		{`[1,9]`, `[1,2,3,9]`, `[{"op":"add","path":"/1","value":2},{"op":"add","path":"/2","value":3}]`, "added in order"},
		{`1`, `[]`, `[{"op":"replace","path":"","value":[],"old":1}]`, "the root is a cell"},
	}
	for _, tt := range tests {
		patch := diff.Diff(decode(t, tt.before), decode(t, tt.after))
		if got := marshal(t, patch); got != tt.want {
			t.Errorf("%s -> %s: got %s, want %s: %s", tt.before, tt.after, got, tt.want, tt.reason)
		}
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	got := marshal(t, diff.Cells(decode(t, `{"l":[1,2],"m":{"n":[]}}`), decode(t, `{"l":[1],"m":{"n":[]}}`)))
	if want := `[{"op":"replace","path":"/l","value":[1],"old":[1,2]}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestPatchLaws: apply(a, diff(a,b)) is b, the inverse undoes it, JSON keeps it,
// and equal values have an empty patch.
func TestPatchLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a := decode(t, genJSON(3).Draw(rt, "a"))
		b := decode(t, genJSON(3).Draw(rt, "b"))
		for _, patch := range []diff.Patch{diff.Diff(a, b), diff.Cells(a, b)} {
			after, err := patch.Apply(a)
			if err != nil || len(diff.Diff(after, b)) > 0 {
				rt.Fatalf("apply %s to %s: got %s, %v, want %s", marshal(t, patch), a, after, err, b)
			}
			back, err := patch.Invert().Apply(b)
			if err != nil || len(diff.Diff(back, a)) > 0 {
				rt.Fatalf("undo %s on %s: got %s, %v, want %s", marshal(t, patch), b, back, err, a)
			}
			var read diff.Patch
			if err := json.Unmarshal([]byte(marshal(t, patch)), &read); err != nil || !read.Equal(patch) {
				rt.Fatalf("round trip of %s: %v, %v", marshal(t, patch), read, err)
			}
		}
		if len(diff.Diff(a, a)) > 0 {
			rt.Fatalf("diff of %s with itself", a)
		}
		if diff.Equal(a, b) != (diff.Hash(a) == diff.Hash(b)) {
			rt.Fatalf("equal %v but hashes say otherwise: %s, %s", diff.Equal(a, b), a, b)
		}
	})
}

func TestPatchConflict(t *testing.T) {
	t.Parallel()
	tests := []struct {
		before string
		op     diff.Op
		reason string
	}{
		{`{}`, diff.Op{Op: "remove", Path: "/a"}, "nothing to remove"},
		{`{"a":1}`, diff.Op{Op: "add", Path: "/a", Value: []byte("2")}, "an add never overwrites"},
		{`{"a":1}`, diff.Op{Op: "replace", Path: "/a", Value: []byte("2"), Old: []byte("3")}, "another old value"},
		{`[1]`, diff.Op{Op: "add", Path: "/2", Value: []byte("2")}, "a gap in a list"},
		{`[1]`, diff.Op{Op: "remove", Path: "/00"}, "no leading zeros"},
		{`1`, diff.Op{Op: "remove", Path: "/a/b"}, "a scalar has no members"},
	}
	for _, tt := range tests {
		if after, err := (diff.Patch{tt.op}).Apply(decode(t, tt.before)); !errors.Is(err, diff.ErrConflict) {
			t.Errorf("%+v on %s: got %s, %v, want a conflict: %s", tt.op, tt.before, after, err, tt.reason)
		}
	}
}

func marshal(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
