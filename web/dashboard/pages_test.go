package dashboard_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/audit/ledger/ledgertest"
)

// firstPaint is the most that a page may need before it shows.
const firstPaint = 150 << 10

// TestDashboard tries every page with many pairs, in one browser.
func TestDashboard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, seededPairs)
	b := newBrowser(t, w.url)
	for _, part := range []struct {
		name string
		test func(t *testing.T, w *world, b *browser)
	}{
		{"three clicks", threeClicks},
		{"every page", everyPage},
		{"keys", keys},
		{"lists are paged", paged},
		{"marks", marks},
		{"without script", withoutScript},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.t = t
			b.media("light", 1280)
			part.test(t, w, b)
		})
	}
}

// threeClicks is what a person does who has never seen the tool: from the
// overview to the worst tool, to its most frequent false success, to the field.
func threeClicks(t *testing.T, _ *world, b *browser) {
	t.Helper()
	b.open("/")
	if headline := b.text(`document.querySelector("h1").textContent`); !strings.Contains(headline, ledgertest.WorstTool) || !strings.Contains(headline, "No") {
		t.Fatalf("the first sentence does not name the worst tool: %q", headline)
	}
	b.click(`.verdict h1 a`) // 1
	if lead := b.text(`document.querySelector(".lead").textContent`); !strings.Contains(lead, string(ledgertest.WorstFamily)) {
		t.Errorf("the tool's page does not lead with its false success: %q", lead)
	}
	b.click(`a[data-frequent]`) // 2
	b.click(`a[data-field]`)    // 3
	if !b.holds(`document.querySelector("tr:target").classList.contains("differs")`) {
		t.Error("the third click does not lead to a field that differs")
	}
	if field := b.text(`document.querySelector("tr:target .executed").textContent`); !strings.Contains(field, "precondition") && !strings.Contains(field, "delivered") {
		t.Errorf("the field does not show why the sandbox refused: %q", field)
	}
}

// screens are the pages of the run, each with something on it.
func screens(t *testing.T, w *world) map[string]string {
	t.Helper()
	lines, _, err := w.Calls(t.Context(), "step-200", audit.CallFilter{Tool: ledgertest.WorstTool, MinSeverity: audit.S5}, audit.Page{Limit: 1})
	if err != nil || len(lines) == 0 {
		t.Fatalf("the seeded run has no false success: %v", err)
	}
	return map[string]string{
		"overview": "/?run=step-200", "tools": "/tools?run=step-200&split=succeeded", "tool": "/tool?run=step-200&tool=" + ledgertest.WorstTool,
		"calls": "/calls?run=step-200", "call": "/call?run=step-200&key=" + lines[0].Key.String(),
		"episode": "/episode?run=step-200&episode=" + lines[0].Episode.String(), "signin": "/sign-in", "error": "/nowhere",
	}
}

func everyPage(t *testing.T, w *world, b *browser) {
	t.Helper()
	for name, path := range screens(t, w) {
		b.open(path)
		b.sound(name)
		if size := b.weight(); size > firstPaint {
			t.Errorf("%s: a first paint of %d bytes, at most %d", name, size, firstPaint)
		}
		b.look(name, "light", 1280)
		b.look(name, "dark", 1280)
		b.sound(name + " in the dark")
		b.look(name, "light", 390)
		if !b.holds(`document.documentElement.scrollWidth <= 391`) {
			t.Errorf("%s: the page is wider than a narrow screen: %s", name, b.text(`[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > 391 && !e.closest(".scroll, .squares, nav")).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join("\n")`))
		}
		b.media("light", 1280)
	}
}

// keys tries j, k, Enter, ?, a digit and u.
func keys(t *testing.T, _ *world, b *browser) {
	t.Helper()
	b.open("/tools?run=step-200")
	b.press("jjk")
	if row := b.text(`[...document.querySelectorAll("[data-row]")].findIndex(r => r.classList.contains("here")).toString()`); row != "0" {
		t.Errorf("j, j, k: row %s is chosen, want the first", row)
	}
	b.press("?")
	if !b.holds(`document.querySelector("#keys").open`) {
		t.Error("? shows no help")
	}
	b.press("?")
	b.press("\r")
	b.until(`location.pathname === "/tool" && document.readyState === "complete"`)
	b.press("u")
	b.until(`location.pathname === "/tools" && document.readyState === "complete"`)
	b.press("1")
	b.until(`location.pathname === "/" && document.readyState === "complete"`)
	b.press("/")
	b.until(`document.activeElement.matches("select")`)
}

// paged walks through a list by the next link and finds no call twice.
func paged(t *testing.T, _ *world, b *browser) {
	t.Helper()
	b.open("/calls?run=step-200&severity=3")
	seen := map[string]bool{}
	for range 3 {
		var keys []string
		if err := json.Unmarshal([]byte(b.text(`JSON.stringify([...document.querySelectorAll("th.callcell a")].map(a => a.href))`)), &keys); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if seen[key] {
				t.Fatalf("a call is listed twice: %s", key)
			}
			seen[key] = true
		}
		b.click(`[data-next]`)
	}
	if len(seen) != 150 {
		t.Errorf("three pages hold %d calls, want 150", len(seen))
	}
}

// marks takes a difference out of the figures through the form, and returns it.
func marks(t *testing.T, w *world, b *browser) {
	t.Helper()
	scored := func() int {
		if err := w.Summarize(t.Context(), "step-100"); err != nil {
			t.Fatal(err)
		}
		s, err := w.Summary(t.Context(), "step-100", audit.Slice{Split: audit.AllTasks})
		if err != nil || s.Pooled == nil {
			t.Fatal(err)
		}
		return s.Pooled.Scored
	}
	before := scored()
	lines, _, err := w.Calls(t.Context(), "step-100", audit.CallFilter{Tool: ledgertest.WorstTool, MinSeverity: audit.S5}, audit.Page{Limit: 1})
	if err != nil || len(lines) == 0 {
		t.Fatal(err)
	}
	b.open("/call?run=step-100&key=" + lines[0].Key.String())
	b.typeInto(`input[name=reason]`, "ticket 12 <b>")
	b.click(`button[value=known_issue]`)
	if said := b.text(`document.querySelector(".notice").textContent`); !strings.Contains(said, "left the figures") {
		t.Errorf("the page says %q", said)
	}
	if after := scored(); after >= before {
		t.Errorf("%d calls count after the mark, before %d", after, before)
	}
	b.sound("call with a mark")
	b.look("marked", "light", 1280)
	b.click(`form[action="/call/unmark"] button`)
	if after := scored(); after != before {
		t.Errorf("%d calls count after the mark is revoked, before %d", after, before)
	}
}

// withoutScript filters by the form's own button, and switches to dark colours.
func withoutScript(t *testing.T, _ *world, b *browser) {
	t.Helper()
	b.script(false)
	defer b.script(true)
	b.open("/calls?run=step-200")
	b.do(b.choose(`select[name=tool]`, "refund"))
	b.click(`[data-go]`)
	tools := b.text(`[...new Set([...document.querySelectorAll("th.callcell a")].map(a => a.textContent))].join()`)
	if tools != "refund" {
		t.Errorf("the filter shows %q, want refund alone", tools)
	}
	b.do(b.pressButton(`button[value=dark]`))
	b.until(`document.documentElement.dataset.theme === "dark"`)
	if at, _ := url.Parse(b.text(`location.href`)); at.Query().Get("tool") != "refund" {
		t.Errorf("the switch of colours lost the filter: %s", at)
	}
	b.do(b.pressButton(`button[value=light]`))
}
