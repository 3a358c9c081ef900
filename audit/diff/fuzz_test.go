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

// FuzzHash: two values have one hash exactly when they are equal, whatever their
// order of keys and the spelling of their numbers.
func FuzzHash(f *testing.F) {
	f.Add(`{"a":[1,2.50e1,-0],"b":null}`, `{"b":null,"a":[1,25,0]}`)
	f.Add(`["ab","c"]`, `["a","bc"]`)
	f.Add(`[[1],2]`, `[1,[2]]`)
	f.Add(`9007199254740993`, `9007199254740992`)
	f.Add(`1e2`, `100`)
	f.Add(`{"":{"":0}}`, `{"":{"":"0"}}`)
	f.Add(`"1"`, `1`)
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := diff.Decode([]byte(a), diff.DefaultLimits())
		if err != nil {
			return
		}
		y, err := diff.Decode([]byte(b), diff.DefaultLimits())
		if err != nil {
			return
		}
		if equal := diff.Equal(x, y); equal != (diff.Hash(x) == diff.Hash(y)) || equal != diff.Equal(y, x) {
			t.Fatalf("%s and %s: equal %v, hashes %x and %x", x, y, equal, diff.Hash(x), diff.Hash(y))
		}
		if c := diff.Compare(nil, x, y, nil); c.Exact() && !diff.Equal(x, y) {
			t.Fatalf("%s and %s compare exactly and are not equal", x, y)
		}
	})
}

// FuzzPolicy: any text is a policy or an error that names what is wrong; a policy
// has one digest and compares any value with itself exactly.
func FuzzPolicy(f *testing.F) {
	f.Add(samplePolicy)
	for _, text := range []string{
		"version: 1\n", "version: 1\ntools: {t: {/a: exact}}", "version: 1\ntools:\n  t:\n    \"regex:(a+)+$\": text\n", "version: 1\ntools: {\"*\": {\"**\": volatile}}",
		"version: &a [*a]\n", "version: 1\ntools: {t: {/a: {rule: number, abs: 1e400}}}", "version: 1\ntools: {t: {/a~2: id}}", "a: &a [x,x]\nb: [*a,*a]\n", "\x00", "version: 1\nversion: 2\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		policy, err := diff.ParsePolicy([]byte(text))
		if err != nil {
			if err.Error() == "" {
				t.Fatalf("%q is refused without a word", text)
			}
			return
		}
		again, err := diff.ParsePolicy([]byte(text))
		if err != nil || again.Digest() != policy.Digest() {
			t.Fatalf("%q read twice: %v, digests %x and %x", text, err, policy.Digest(), again.Digest())
		}
		v := decode(t, `{"order_id":"W1","items":[{"item_id":1,"n":1.0},{"item_id":2}],"a":{"b":[null,"x"]},"time":"2024-05-15T15:00:00Z"}`)
		for _, tool := range []string{"t", "get_order", "*", ""} {
			if c := diff.Compare(policy.For(tool), v, v, nil); !c.Exact() {
				t.Fatalf("%q: a value is not itself: %s", text, c.Explain())
			}
		}
	})
}
