package dashboard_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/ledger/ledgertest"
)

// firstPaint is the most that a page may need before it shows.
const firstPaint = 150 << 10

// TestManyPairs tries every page over one ledger in which everything has
// happened, in one browser.
func TestManyPairs(t *testing.T) {
	t.Parallel()
	w := newOperations(t)
	b := newBrowser(t)
	for _, part := range []struct {
		name string
		test func(t *testing.T, w *world, b *browser)
	}{
		{"three clicks", threeClicks},
		{"every page", everyPage},
		{"keys", keys},
		{"lists are paged", paged},
		{"without script", withoutScript},
		{"compared call", comparedCalls},
		{"keys of lists", operationKeys},
		{"bundle", bundled},
		{"marks", marks},
		{"jobs are sent again", jobsSentAgain},
		{"tokens", tokens},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.visit(t, w)
			b.media("light", 1280)
			part.test(t, w, b)
		})
	}
}

// threeClicks is what a person does who has never seen the tool: from the
// overview to the worst tool, to its most frequent false success, to the field.
func threeClicks(t *testing.T, _ *world, b *browser) {
	t.Helper()
	b.open("/?run=step-200")
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

// screens are the pages by name, each with a word that it must say.
func screens(t *testing.T, w *world) map[string][2]string {
	t.Helper()
	lines, _, err := w.Calls(t.Context(), "step-200", audit.CallFilter{Tool: ledgertest.WorstTool, MinSeverity: audit.S5}, audit.Page{Limit: 1})
	if err != nil || len(lines) == 0 {
		t.Fatalf("the seeded run has no false success: %v", err)
	}
	gates, _, err := w.Gates(t.Context(), audit.GateFilter{}, audit.Page{Limit: 1})
	if err != nil || len(gates) == 0 {
		t.Fatalf("no gate has decided: %v", err)
	}
	return map[string][2]string{
		"overview":          {"/?run=step-200", "Where not"},
		"tools":             {"/tools?run=step-200&split=succeeded", ledgertest.WorstTool},
		"tool":              {"/tool?run=step-200&tool=" + ledgertest.WorstTool, "Most frequent false success"},
		"calls":             {"/calls?run=step-200", ledgertest.WorstTool},
		"call":              {"/call?run=step-200&key=" + lines[0].Key.String(), "Field by field"},
		"episode":           {"/episode?run=step-200&episode=" + lines[0].Episode.String(), "Timeline"},
		"signin":            {"/sign-in", "Sign in"},
		"error":             {"/nowhere", "no page"},
		"compare":           {"/compare?run=step-200", "Worse"},
		"compare unmatched": {"/compare?run=step-200&base=step-100&tab=unmatched", "fork"},
		"compare tool":      {"/compare?run=step-100&base=step-200&tool=" + ledgertest.WorstTool, "Better"},
		"calibration":       {"/calibration?run=step-200", "Reliability"},
		"training":          {"/training?experiment=tiny", "grpo-sandbox"},
		"training metric":   {"/training?metric=length", "REHEARSE"},
		"training sweep":    {"/training?run=thrice", "60 calls were rehearsed more than once"},
		"gates":             {"/gates", "PASS"},
		"gate":              {"/gate?run=step-200&decided=" + url.QueryEscape(gates[0].Decided.UTC().Format(time.RFC3339Nano)), "Conditions"},
		"environments":      {"/environments", "shop"},
		"environment":       {"/environment?environment=shop&version=1", "Noise map"},
		"contract":          {"/contract?ref=shop", "errors are errors"},
		"alerts":            {"/alerts", "gates that turned"},
		"jobs":              {"/jobs", "Given up"},
		"settings":          {"/settings", "127.0.0.1:8080"},
	}
}

// everyPage looks at each page in light, dark and narrow; whatever comes from
// outside is hostileText.
func everyPage(t *testing.T, w *world, b *browser) {
	t.Helper()
	for name, screen := range screens(t, w) {
		b.open(screen[0])
		if title := b.text(`document.title`); !strings.Contains(title, "Understudy") {
			t.Errorf("%s: text from outside changed the title to %q", name, title)
		}
		if text := b.text(`document.querySelector("main").innerText`); !strings.Contains(text, screen[1]) || strings.Contains(text, "NaN") {
			t.Errorf("%s: the page does not say %q, or says NaN: %.300s", name, screen[1], text)
		}
		for _, bad := range []string{"main script", "main img:not(.reports img)", "main [style]"} {
			if b.holds(`document.querySelector("` + bad + `")`) {
				t.Errorf("%s: %s came in from outside", name, bad)
			}
		}
		b.sound(name)
		if size := b.weight(); size > firstPaint {
			t.Errorf("%s: a first paint of %d bytes, at most %d", name, size, firstPaint)
		}
		b.looks(name)
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
	b.arrive(`location.pathname === "/tool"`)
	b.press("u")
	b.arrive(`location.pathname === "/tools"`)
	b.press("1")
	b.arrive(`location.pathname === "/"`)
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
	b.arrive(`document.documentElement.dataset.theme === "dark"`)
	if at, _ := url.Parse(b.text(`location.href`)); at.Query().Get("tool") != "refund" {
		t.Errorf("the switch of colours lost the filter: %s", at)
	}
	b.do(b.pressButton(`button[value=light]`))
	b.until(`document.documentElement.dataset.theme === "light"`) // the switch has ended before the next page is opened
}
