package gate

import (
	"bytes"
	_ "embed" // the page's template
	"fmt"
	"html/template"
	"math"

	"understudy/audit"
)

//go:embed page.html.tmpl
var page string

// ReportHTML is the verdict as one self-contained page: no script, no link to
// anything, readable in the dark and on paper.
func ReportHTML(v *Verdict) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"text": plain, "number": number,
		"place":  func(c Check) string { return plain(place(&c)) },
		"remark": func(c Check) string { return plain(remark(&c)) },
		"bar":    bar,
		"first":  func(all []audit.Finding) []audit.Finding { return all[:min(len(all), 200)] },
	}).Parse(page)
	if err != nil {
		return nil, fmt.Errorf("read the page's template: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return nil, fmt.Errorf("write the verdict as HTML: %w", err)
	}
	return b.Bytes(), nil
}

// bar draws the bounds and the limit of a figure in [0,1] as a small SVG.
func bar(c Check) template.HTML {
	e := c.Estimate
	if c.Kind != Limit || !e.Defined() {
		return ""
	}
	at := func(x float64) float64 { return math.Round(1200*min(1, max(0, x))) / 10 }
	//nolint:gosec // only numbers are formatted into it
	return template.HTML(fmt.Sprintf(`<svg width="120" height="12" role="img" aria-label="bounds and limit">`+
		`<rect x="0" y="5" width="120" height="2" fill="currentColor" opacity=".2"/>`+
		`<rect x="%g" y="4" width="%g" height="4" fill="currentColor" opacity=".6"/>`+
		`<circle cx="%g" cy="6" r="3" fill="currentColor"/>`+
		`<rect x="%g" y="0" width="1.5" height="12" fill="red"/></svg>`,
		at(e.Lo), max(.5, at(e.Hi)-at(e.Lo)), at(e.Value), at(c.Limit)))
}

// ReportBadge is a small SVG for a README: the status and how many calls are
// behind it, grey when nothing is decided.
func ReportBadge(v *Verdict) ([]byte, error) {
	calls, passed, decided := 0, 0, 0
	for i := range v.Checks {
		c := &v.Checks[i]
		calls = max(calls, c.Estimate.N)
		if c.decides() {
			decided++
			if c.Status == Pass {
				passed++
			}
		}
	}
	colour := map[Status]string{Pass: "#1a7f37", Fail: "#cf222e", Inconclusive: "#6e7781", Error: "#8250df"}[v.Status]
	right := fmt.Sprintf("%s %d/%d (n ≤ %d)", v.Status, passed, decided, calls)
	const left = "rehearsal gate"
	width := func(s string) int { return 12 + 7*len([]rune(s)) } // about the width of 11 px Verdana
	l, r := width(left), width(right)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s: %s">`+
		`<title>%s: %s</title><rect width="%d" height="20" fill="#555"/><rect x="%d" width="%d" height="20" fill="%s"/>`+
		`<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">`+
		`<text x="%d" y="14">%s</text><text x="%d" y="14">%s</text></g></svg>`+"\n",
		l+r, left, right, left, right, l, l, r, colour, l/2, left, l+r/2, right), nil
}
