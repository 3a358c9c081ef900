package audit_test

import (
	"testing"

	"understudy/audit"
)

// Rules have a name of their own from the first written word on, and by the defaults none.
func TestWrittenRulesHaveADigest(t *testing.T) {
	t.Parallel()
	noise := audit.NewNoise([]audit.NoisePath{{Tool: "t", Pattern: "/at", Masked: true}})
	for _, test := range []struct {
		rules, paths string
		noise        *audit.Noise
		written      bool
		reason       string
	}{
		{"", "", nil, false, "the defaults"},
		{" \n", " \n", nil, false, "empty files say nothing"},
		{"version: \"1\"", "", nil, true, "a version alone"},
		{"", "version: \"1\"", nil, true, "a path policy"},
		{"defects:\n  - {environment: e, tool: t, note: n}", "", nil, true, "a defect"},
		{"", "", noise, true, "marked noise"},
	} {
		r, err := audit.ParseRules([]byte(test.rules), []byte(test.paths), test.noise)
		if err != nil {
			t.Fatal(err)
		}
		if written := r.Written(); written.IsZero() == test.written || test.written && written != r.Digest() {
			t.Errorf("%s: written %s of the digest %s", test.reason, written, r.Digest())
		}
	}
}

// FuzzRules: any two texts are rules or an error with a hint, and whatever the
// rules say, a verdict is sane.
func FuzzRules(f *testing.F) {
	f.Add("", "")
	f.Add("version: \"1\"\ntools:\n  \"*\":\n    codes: {OUT_OF_STOCK: precondition}\n  t:\n    empty: [/results]\n    fields: [{pointer: /status, failed: [declined], message: /why}]\n", "version: 1\ntools: {t: {/id: key}}")
	f.Add("defects:\n  - {environment: retail, tool: t, pointer: /items/*/price, note: known}\n", "version: 1\ntools: {t: {\"/items\": {array: multiset}}}")
	f.Add("tools:\n  t:\n    texts: [{match: \"(?i)no such\", family: not_found}]\n    echo: {\"\": \"/things/{id}\"}\n", "")
	f.Add("format: [", "\x00")
	f.Fuzz(func(t *testing.T, rules, paths string) {
		r, err := audit.ParseRules([]byte(rules), []byte(paths), nil)
		if err != nil {
			if audit.ErrorHint(err) == "" {
				t.Fatalf("%q, %q: %v, without a hint", rules, paths, err)
			}
			return
		}
		for _, rehearsed := range []string{`{"id":"7","status":"declined","results":[]}`, `{"error":"no such thing"}`, `no`} {
			v := judge(r, audit.Write, `{"id":"7","status":"ok","results":[1]}`, rehearsed, "", nil, audit.StatusOK)
			if err := sane(&v); err != nil {
				t.Fatalf("%q, %q of %s: %v", rules, paths, rehearsed, err)
			}
		}
	})
}
