package diff_test

import (
	"encoding/json"
	"testing"

	"understudy/audit/diff"
)

// FuzzDecode: what encoding/json accepts we accept, but for our limits, and the
// canonical text of it decodes to an equal value with an equal hash.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,2.50e1,-0],"b":null}`, `"\ud83d\u0000"`, `[[[]]]`, `1e400000000`, "\xff", `{"a":1,"a":2}`, `NaN`, `{"a":`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := diff.Decode(text, diff.DefaultLimits())
		if err != nil {
			if failure, ok := err.(*diff.DecodeError); !ok { //nolint:errorlint // the very type is the contract
				t.Fatalf("error of type %T", err)
			} else if !failure.Class.Oversize() && failure.Class != diff.ClassEncoding && json.Valid(text) {
				t.Fatalf("%q is valid JSON: %v", text, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is no JSON, we read %s", text, v)
		}
		again, err := diff.Decode(v.JSON(), diff.DefaultLimits())
		if err != nil || !diff.Equal(v, again) || diff.Hash(v) != diff.Hash(again) {
			t.Fatalf("%q: %s becomes %s, %v", text, v, again, err)
		}
	})
}

// FuzzNormalise: any text ends in a value or in a decode error.
func FuzzNormalise(f *testing.F) {
	for _, text := range []string{
		`{'a': True, 'b': (1, None,)}`, `"{\"a\":1}"`, `{"content":[{"type":"text","text":"{}"}]}`, `Error: x`, `None`, `{'a': '\x41\u00e9'}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := diff.Normalise(text, diff.DefaultLimits())
		if err != nil {
			return
		}
		if _, err := diff.Decode(n.Value.JSON(), diff.Limits{Bytes: 16 << 20, Depth: 1000, Leaves: 1 << 20}); err != nil {
			t.Fatalf("%q: %s: %v", text, n.Value, err)
		}
	})
}

// FuzzCompare: the laws of comparison and of patches hold for any two values
// under any rules that parse.
func FuzzCompare(f *testing.F) {
	f.Add(`{"a":[1,2,3]}`, `{"a":[1,3]}`, `"**": {array: multiset}`)
	f.Add(`[{"id":1,"v":[1]},{"id":1}]`, `[{"id":1},{"id":2}]`, `"": {array: keyed, fields: [id]}`)
	f.Add(`{"a":"x","b":null}`, `{"a":"y"}`, "/a: id\n/b: {equate: [absent, null]}")
	f.Add(`[0,1,0,1,0]`, `[1,0,1,0,1]`, `"regex:^/1": text`)
	f.Fuzz(func(t *testing.T, a, b, paths string) {
		x, err := diff.Decode([]byte(a), diff.DefaultLimits())
		if err != nil {
			return
		}
		y, err := diff.Decode([]byte(b), diff.DefaultLimits())
		if err != nil {
			return
		}
		policy, err := diff.ParsePolicy([]byte("version: 1\ntools:\n  t:\n" + indent(paths)))
		if err != nil {
			return
		}
		r := policy.For("t")
		if c := diff.Compare(r, x, x, nil); !c.Exact() || c.F1 != 1 {
			t.Fatalf("%s with itself under %q: %s", x, paths, c.Explain())
		}
		c := diff.Compare(r, x, y, nil)
		if patched, err := c.Patch().Apply(x); err != nil {
			t.Fatalf("%s, %s under %q: %v of %s", x, y, paths, err, patched)
		}
		patch := diff.Diff(x, y)
		if patched, err := patch.Apply(x); err != nil || !diff.Equal(patched, y) {
			t.Fatalf("%s, %s: %v gives %s, %v", x, y, patch, patched, err)
		}
	})
}
