package diff_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"understudy/audit/diff"
)

// somePolicies are rules that between them use every way of comparing.
func somePolicies(tb testing.TB) []*diff.Rules {
	tb.Helper()
	var out []*diff.Rules
	for _, paths := range []string{
		"",
		`"**": {array: multiset}`,
		"\"**\": {array: keyed, fields: [a]}\n\"/**/b\": {rule: number, abs: 0.5}",
		"\"/**/a\": id\n\"**\": {equate: [[absent, null], [null, empty]]}",
		"\"regex:b$\": text\n/a: {weight: 5}\n/*/*: volatile",
	} {
		out = append(out, rules(tb, indent(paths)))
	}
	return out
}

// TestCompareLaws: compare(x,x) is empty; the count is symmetric; a score is in
// [0,1]; the same input gives the same output.
func TestCompareLaws(t *testing.T) {
	t.Parallel()
	policies := somePolicies(t)
	rapid.Check(t, func(rt *rapid.T) {
		a := decode(t, genJSON(3).Draw(rt, "a"))
		b := decode(t, genJSON(3).Draw(rt, "b"))
		for i, r := range policies {
			if c := diff.Compare(r, a, a, nil); !c.Exact() || c.F1 != 1 || c.Precision != 1 || c.Recall != 1 || c.Shape != 1 {
				rt.Fatalf("policy %d: %s with itself: %s, %+v", i, a, c.Explain(), c)
			}
			ab, ba := diff.Compare(r, a, b, nil), diff.Compare(r, b, a, nil)
			if len(ab.Differences) != len(ba.Differences) {
				rt.Fatalf("policy %d: %s, %s: got\n%sand the other way round\n%s", i, a, b, ab.Explain(), ba.Explain())
			}
			if !near(ab.F1, ba.F1) || !near(ab.Shape, ba.Shape) || !near(ab.Precision, ba.Recall) {
				rt.Fatalf("policy %d: %s, %s: got %+v, and the other way round %+v", i, a, b, ab, ba)
			}
			for _, score := range []float64{
				ab.F1, ab.Precision, ab.Recall, ab.Shape, ab.Hallucinated, ab.Omitted, ab.MaskedWeight,
			} {
				if !(score >= 0 && score <= 1) {
					rt.Fatalf("policy %d: %s, %s: score %g", i, a, b, score)
				}
			}
			if again := diff.Compare(r, a, b, nil); marshal(t, again) != marshal(t, ab) {
				rt.Fatalf("policy %d: %s, %s: got %s, then %s", i, a, b, marshal(t, ab), marshal(t, again))
			}
		}
	})
}

// TestComparisonPatch: the difference, applied to the real answer, gives one that
// equals the rehearsed answer under the same rules.
func TestComparisonPatch(t *testing.T) {
	t.Parallel()
	policies := somePolicies(t)
	rapid.Check(t, func(rt *rapid.T) {
		a := decode(t, genJSON(3).Draw(rt, "a"))
		b := decode(t, genJSON(3).Draw(rt, "b"))
		for i, r := range policies[:3] {
			c := diff.Compare(r, a, b, nil)
			patched, err := c.Patch().Apply(a)
			if err != nil {
				rt.Fatalf("policy %d: apply %s to %s: %v", i, marshal(t, c.Patch()), a, err)
			}
			if rest := diff.Compare(r, patched, b, nil); !rest.Exact() {
				rt.Fatalf("policy %d: %s, %s: patched to %s, which leaves %s", i, a, b, patched, rest.Explain())
			}
		}
		if c := diff.Compare(nil, a, b, nil); true {
			if patched, err := c.Patch().Apply(a); err != nil || !diff.Equal(patched, b) {
				rt.Fatalf("%s, %s: patched to %s, %v", a, b, patched, err)
			}
		}
	})
}

// TestPermutation: the order of a multiset changes neither score nor count.
func TestPermutation(t *testing.T) {
	t.Parallel()
	multiset := rules(t, `    "**": {array: multiset}`)
	rapid.Check(t, func(rt *rapid.T) {
		elements := rapid.SliceOfN(genJSON(2), 0, 8).Draw(rt, "real")
		others := rapid.SliceOfN(genJSON(2), 0, 8).Draw(rt, "rehearsed")
		shuffled := rapid.Permutation(others).Draw(rt, "shuffled")
		list := func(elements []string) diff.Value { return decode(t, "["+strings.Join(elements, ",")+"]") }
		a := diff.Compare(multiset, list(elements), list(others), nil)
		b := diff.Compare(multiset, list(elements), list(shuffled), nil)
		if !near(a.F1, b.F1) || len(a.Differences) != len(b.Differences) || a.Shape != b.Shape {
			rt.Fatalf("got %s then %s", a.Explain(), b.Explain())
		}
		if c := diff.Compare(multiset, list(others), list(shuffled), nil); !c.Exact() {
			rt.Fatalf("shuffled: %s", c.Explain())
		}
	})
}

// TestMonotone: one more wrong leaf never raises a score. A wrong leaf is a right
// one replaced by a value that occurs nowhere or, outside of lists, left out: an
// element that is left out, or that lacks a member, may be right elsewhere.
func TestMonotone(t *testing.T) {
	t.Parallel()
	policies := somePolicies(t)
	rapid.Check(t, func(rt *rapid.T) {
		realValue := decode(t, genJSON(3).Draw(rt, "real"))
		rehearsed := realValue
		for step := range rapid.IntRange(1, 6).Draw(rt, "steps") {
			worse := spoil(t, rt, realValue, rehearsed, step)
			for i, r := range policies[:2] {
				before := diff.Compare(r, realValue, rehearsed, nil)
				after := diff.Compare(r, realValue, worse, nil)
				if after.F1 > before.F1+1e-6 {
					rt.Fatalf("policy %d: real %s: rehearsed %s scores %g, spoilt to %s it scores %g",
						i, realValue, rehearsed, before.F1, worse, after.F1)
				}
			}
			rehearsed = worse
		}
	})
}

// spoil makes one leaf of the rehearsed value wrong.
func spoil(tb testing.TB, rt *rapid.T, realValue, rehearsed diff.Value, step int) diff.Value {
	tb.Helper()
	fresh := fmt.Sprintf("\"wrong %d\"", step)
	leaves := leavesOf(rehearsed, "")
	right := leaves[:0]
	for _, leaf := range leaves { // only leaves that are right where they are
		x, okX := realValue.Lookup(leaf)
		y, _ := rehearsed.Lookup(leaf)
		if okX && diff.Equal(x, y) {
			right = append(right, leaf)
		}
	}
	if len(right) == 0 {
		return rehearsed
	}
	at := rapid.SampledFrom(right).Draw(rt, "leaf")
	old, _ := rehearsed.Lookup(at)
	patch := diff.Patch{{Op: diff.OpReplace, Path: at, Value: []byte(fresh), Old: old.JSON()}}
	if at != "" && !throughList(rehearsed, at) && rapid.Bool().Draw(rt, "omit") {
		patch = diff.Patch{{Op: diff.OpRemove, Path: at, Old: old.JSON()}}
	}
	worse, err := patch.Apply(rehearsed)
	if err != nil {
		rt.Fatal(err)
	}
	return worse
}

// throughList reports whether a pointer leads through an array.
func throughList(v diff.Value, pointer string) bool {
	for i := range len(pointer) {
		if pointer[i] != '/' {
			continue
		}
		if container, _ := v.Lookup(pointer[:i]); container.Type() == diff.TypeArray {
			return true
		}
	}
	return false
}

// leavesOf lists the pointers of all leaves.
func leavesOf(v diff.Value, at string) []string {
	if v.Len() == 0 {
		return []string{at}
	}
	var out []string
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for name, kid := range v.Members() {
		out = append(out, leavesOf(kid, at+"/"+escape.Replace(name))...)
	}
	for i, kid := range v.Elements() {
		out = append(out, leavesOf(kid, fmt.Sprintf("%s/%d", at, i))...)
	}
	return out
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// TestOracle: under exact comparison an independent judge, go-cmp over plain Go
// values, finds a difference exactly when we do; where no list is involved it
// reports the very same paths.
func TestOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a := decode(t, genJSON(3).Draw(rt, "a"))
		b := decode(t, genJSON(3).Draw(rt, "b"))
		var oracle pathReporter
		same := cmp.Equal(plain(a), plain(b), cmp.Reporter(&oracle))
		c := diff.Compare(nil, a, b, nil)
		if same != c.Exact() {
			rt.Fatalf("%s, %s: go-cmp says %v, we say %s", a, b, same, c.Explain())
		}
		if strings.Contains(a.String()+b.String(), "[") {
			return
		}
		var ours []string
		for _, d := range c.Differences {
			ours = append(ours, d.Pointer)
		}
		if fmt.Sprint(ours) != fmt.Sprint(oracle.sorted()) {
			rt.Fatalf("%s, %s: go-cmp reports %q, we %q", a, b, oracle.sorted(), ours)
		}
	})
}

// TestHashRandomTrees: over a million random values, equal hashes mean equal
// values. Values are small, so that most are drawn many times.
func TestHashRandomTrees(t *testing.T) {
	t.Parallel()
	trees := 1_000_000
	if raceEnabled || testing.Short() {
		trees = 50_000
	}
	random := rand.New(rand.NewPCG(1, 2))
	seen := make(map[[32]byte]string, trees/2)
	canonical := make(map[string][32]byte, trees/2)
	var text, form []byte
	for range trees {
		text, form = text[:0], form[:0]
		text, form = randomTree(random, text, form, 3)
		hash := diff.Hash(decode(t, string(text)))
		if other, ok := seen[hash]; ok && other != string(form) {
			t.Fatalf("%s and %s have one hash", form, other)
		}
		if other, ok := canonical[string(form)]; ok && other != hash {
			t.Fatalf("%s has two hashes, the second as %s", form, text)
		}
		seen[hash], canonical[string(form)] = string(form), hash
	}
	if len(seen) != len(canonical) {
		t.Fatalf("%d hashes of %d different values", len(seen), len(canonical))
	}
	t.Logf("%d trees, %d of them different", trees, len(seen))
}

// randomTree appends a random value as text, in one of several spellings, and in
// a canonical form that is made without the package under test.
func randomTree(r *rand.Rand, text, form []byte, depth int) (_, _ []byte) {
	scalars := [][2]string{
		{"null", "null"},
		{"true", "true"},
		{"false", "false"},
		{"0", "0"},
		{"-0.0", "0"},
		{"1", "1"},
		{"1.0", "1"},
		{"10e-1", "1"},
		{"25", "25"},
		{"2.5e1", "25"},
		{"-1", "-1"},
		{`""`, `""`},
		{`"a"`, `"a"`},
		{`"\u0061"`, `"a"`},
		{`"1"`, `"1"`},
		{"[]", "[]"},
		{"{}", "{}"},
		{`"\ud800"`, `"\ud800"`},
	}
	if depth == 0 || r.IntN(3) == 0 {
		s := scalars[r.IntN(len(scalars))]
		return append(text, s[0]...), append(form, s[1]...)
	}
	open, closing := byte('['), byte(']')
	object := r.IntN(2) == 0
	if object {
		open, closing = '{', '}'
	}
	text, form = append(text, open), append(form, open)
	var names []string
	if object {
		for _, name := range []string{"a", "b", "c"} {
			if r.IntN(2) == 0 {
				names = append(names, name)
			}
		}
	} else {
		names = make([]string, r.IntN(4))
	}
	var members [][]byte
	for i, name := range names {
		var member, memberForm []byte
		member, memberForm = randomTree(r, nil, nil, depth-1)
		if object {
			member = append([]byte(`"`+name+`":`), member...)
			memberForm = append([]byte(`"`+name+`":`), memberForm...)
		}
		members = append(members, member)
		if i > 0 {
			form = append(form, ',')
		}
		form = append(form, memberForm...)
	}
	if object { // the order of members means nothing
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	}
	for i, member := range members {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, member...)
	}
	return append(text, closing), append(form, closing)
}

// TestEditScript: a long list with a few edits has no more differences than
// edits, and the patch of them gives the edited list.
func TestEditScript(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		before := rapid.SliceOfN(rapid.IntRange(0, 30), 0, 300).Draw(rt, "before")
		after := append([]int{}, before...)
		edits := rapid.IntRange(0, 12).Draw(rt, "edits")
		for range edits {
			at := rapid.IntRange(0, len(after)).Draw(rt, "at")
			if at < len(after) && rapid.Bool().Draw(rt, "delete") {
				after = append(after[:at], after[at+1:]...)
				continue
			}
			after = append(after[:at], append([]int{rapid.IntRange(0, 30).Draw(rt, "inserted")}, after[at:]...)...)
		}
		x, y := decode(t, marshal(t, before)), decode(t, marshal(t, after))
		c := diff.Compare(nil, x, y, nil)
		reordered := len(c.Differences) == 1 && c.Differences[0].Kind == diff.Reordered
		if len(c.Differences) > edits && !reordered {
			rt.Fatalf("%d edits, %d differences: %s", edits, len(c.Differences), c.Explain())
		}
		if patched, err := c.Patch().Apply(x); err != nil || !diff.Equal(patched, y) {
			rt.Fatalf("patched to %s, %v, want %s", patched, err, y)
		}
	})
}
