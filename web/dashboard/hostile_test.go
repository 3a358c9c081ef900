package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/audit/ledger/ledgertest"
)

// hostile is a text that tries to be markup, a terminal, another direction of
// writing and large, all at once.
func hostile(size int) string {
	evil := "</code></pre><script>window.owned=1</script><img src=x onerror=\"window.owned=1\">" +
		"\x1b[31m\x1b]0;owned\x07 \u202egnirts\u202c \u2066x\u2069 \x00 {{.Request}} &lt; ' \" ` "
	return evil + strings.Repeat("<b onmouseover=owned()>long</b> ", size/32)
}

// hostilePair is a call whose every text came from an enemy.
func hostilePair(t *testing.T, key byte, raw string) audit.Pair {
	t.Helper()
	evil := hostile(0)
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &audit.Case{
		Environment: evil, Mode: audit.Open, Tool: audit.Tool{Name: evil, Effect: audit.Write}, Call: audit.Call{Tool: evil, Arguments: []byte(raw)},
		Rehearsal:   &audit.Rehearsal{Raw: []byte(raw)},
		Observation: &audit.Observation{Status: audit.StatusOK, Raw: []byte(`{"a/b~c":"` + strings.Repeat("x", 3000) + `"}`), Evidence: audit.EvidenceExact, Delta: diff.Patch{{Op: diff.OpAdd, Path: "/" + strings.Repeat("<i>", 9), Value: []byte(`"<script>1</script>"`)}}},
	}
	return audit.Pair{
		Key: audit.Digest{key}, Episode: evil + string('a'+rune(key)), PromptGroup: evil, Policy: evil, Environment: evil, Version: evil, EnvDigest: audit.Digest{1},
		Mode: audit.Open, Effect: audit.Write, Action: audit.Action{Call: c.Call, Rehearsal: c.Rehearsal, Prompt: []byte(`"` + "<script>owned()</script>" + `"`)},
		Observation: c.Observation, Verdict: rules.Judge(c),
	}
}

// TestFewPairs tries what needs a small ledger of its own, in one browser.
func TestFewPairs(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	for _, part := range []struct {
		name string
		test func(t *testing.T, b *browser)
	}{
		{"hostile text", hostileTexts},
		{"the checks find faults", soundFindsFaults},
		{"live", live},
		{"empty", empty},
		{"the ledger is down", ledgerDown},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, b) })
	}
}

// hostileTexts shows what an enemy rehearsed, on every page that shows it.
func hostileTexts(t *testing.T, b *browser) {
	t.Helper()
	l := newLedger(t)
	run := "<script>window.owned=1</script>"
	if _, err := l.CreateRun(t.Context(), audit.NewRun{Name: run, Policy: hostile(0)}); err != nil {
		t.Fatal(err)
	}
	for i, raw := range []string{hostile(1 << 20), `{"a/b~c": "` + "<script>window.owned=1</script>\u202e" + `"}`, "\xff\xfe" + hostile(0)} {
		if _, err := l.Commit(t.Context(), run, []audit.Pair{hostilePair(t, byte(i+1), raw)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Summarize(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	b.visit(t, serve(t, l))
	paths := []string{"/", "/tools", "/calls"}
	for _, key := range []string{"01", "02", "03"} {
		paths = append(paths, "/call?key="+key+strings.Repeat("0", 62))
	}
	b.open("/tools")
	paths = append(paths, b.text(`document.querySelector("main tbody a").getAttribute("href")`))
	b.open("/calls")
	paths = append(paths, b.text(`document.querySelector("a[href^='/episode']").getAttribute("href")`))
	for _, path := range paths {
		b.open(path)
		b.sound(path)
		if b.holds(`window.owned || document.querySelector("main script, main img, main i:not(:empty) b, [onerror], [onmouseover]")`) {
			t.Errorf("%s: the enemy's markup is markup", path)
		}
		if b.holds(`/[\u202a-\u202e\u2066-\u2069\u001b\u0000]/.test(document.body.innerText)`) {
			t.Errorf("%s: the page holds characters that are not what they seem", path)
		}
		if size := b.weight(); size > firstPaint {
			t.Errorf("%s: a first paint of %d bytes, at most %d", path, size, firstPaint)
		}
	}
	b.open("/call?key=01" + strings.Repeat("0", 62))
	b.look("hostile", "light", 1280)
	b.do(b.pressButton(`a[data-load=body-rehearsed]`))
	b.until(`document.querySelector("#body-rehearsed").textContent.length > 1000000`)
	if b.holds(`window.owned || document.querySelector("main script")`) {
		t.Error("the rest of the body is markup")
	}
}

// soundFindsFaults shows that the checks of every page can fail.
func soundFindsFaults(t *testing.T, b *browser) {
	t.Helper()
	b.visit(t, serve(t, newLedger(t)))
	b.open("/sign-in")
	b.sound("sign in")
	for name, broken := range map[string]string{
		"no name": `<a href="/x"></a>`, "no label": `<input type="text">`, "no title": `<svg width="5" height="5"></svg>`, "no alt": `<img src="/x">`,
		"not one h1": `<h1>two</h1>`, "skips a level": `<h4>deep</h4>`, "an id twice": `<p id="token">x</p>`, "without heads": `<table><tr><td>1</td></tr><tr><td>2</td></tr></table>`,
		"tabindex": `<p tabindex="3">x</p>`, "inline style or script": `<script>1</script>`, "contrast": `<p class="soft"><font color="#999999">faint</font></p>`,
	} {
		faults := b.text(`(() => { const p = document.createElement("div"); p.innerHTML = ` + "`" + broken + "`" + `; document.querySelector("main").append(p); const found = ` +
			strings.TrimSuffix(strings.TrimSpace(soundScript), ";") + `; p.remove(); return found })()`)
		if !strings.Contains(faults, name) {
			t.Errorf("%s is not found: %q", name, faults)
		}
	}
}

// live watches a run move: the page follows without being loaded again, also what
// happened before its stream began.
func live(t *testing.T, b *browser) {
	t.Helper()
	l := newLedger(t)
	if _, err := l.CreateRun(t.Context(), audit.NewRun{Name: "live", Policy: "p"}); err != nil {
		t.Fatal(err)
	}
	commit := func(key byte) {
		if _, err := l.Commit(t.Context(), "live", []audit.Pair{hostilePair(t, key, `{}`)}); err != nil {
			t.Fatal(err)
		}
		if err := l.Summarize(t.Context(), "live"); err != nil {
			t.Fatal(err)
		}
	}
	commit(1)
	begin := make(chan struct{})
	b.visit(t, serveBehind(t, l, l, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/events" {
				select {
				case <-begin:
				case <-r.Context().Done():
				}
			}
			next.ServeHTTP(w, r)
		})
	}))
	b.open("/")
	b.do(b.mark())
	b.until(`document.querySelector("[data-live=asof]").textContent.includes("1 calls")`)
	commit(2)
	close(begin)
	b.until(`document.querySelector("[data-live=asof]").textContent.includes("2 calls")`)
	commit(3)
	b.until(`document.querySelector("[data-live=asof]").textContent.includes("3 calls")`)
	if !b.holds(`window.stayed`) {
		t.Error("the page was loaded again instead of following")
	}
}

// empty shows what to run where nothing is there yet.
func empty(t *testing.T, b *browser) {
	t.Helper()
	b.visit(t, serve(t, newLedger(t)))
	for _, path := range []string{"/", "/tools", "/calls"} {
		b.open(path)
		b.sound(path)
		if !b.holds(`document.querySelector(".empty")`) {
			t.Errorf("%s of an empty ledger says nothing", path)
		}
	}
	b.look("empty", "light", 1280)
}

// TestFirstScreenPassesOverMaskedRuns opens the dashboard after a run of which
// no call has a verdict: it shows the one before, which is too small to decide
// anything, and leads to its worst tool all the same.
func TestFirstScreenPassesOverMaskedRuns(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ledgertest.Fill(t, l, ledgertest.Seed{Run: "scored", Pairs: 20})
	masked := hostilePair(t, 2, `{}`)
	masked.Verdict = audit.Verdict{Masked: audit.MaskNotSampled}
	if _, err := l.CreateRun(t.Context(), audit.NewRun{Name: "masked", Policy: "p"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), "masked", []audit.Pair{masked}); err != nil {
		t.Fatal(err)
	}
	_, body := get(t, serve(t, l).url+"/")
	if !strings.Contains(body, `data-run="scored"`) {
		t.Error("the first screen shows a run without a verdict")
	}
	if _, first, _ := strings.Cut(body, "<h1>Not shown yet"); !strings.Contains(strings.Split(first, "</h1>")[0], `<a href="/tool?`) {
		t.Errorf("an undecided first sentence leads to no tool: %.300s", body)
	}
}
