package dashboard

import (
	"errors"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/web/chart"
)

// functions are what templates call.
func (s *site) functions() template.FuncMap {
	return template.FuncMap{
		"asset":    s.assets.URL,
		"draw":     s.charts.Draw,
		"percent":  chart.Percent,
		"number":   chart.Number,
		"bare":     bare,
		"plural":   plural,
		"count":    count,
		"signed":   signed,
		"plain":    audit.Plain,
		"brief":    brief,
		"shell":    audit.ShellWord,
		"when":     when,
		"words":    words,
		"args":     args,
		"grade":    grade,
		"formula":  formula,
		"finite":   finite,
		"severity": severityName,
		"anchor":   anchor,
		"deref":    func(b *bool) bool { return *b },
		"ratio":    func(a, b float64) float64 { return a / b },
		"rung":     func(i int) audit.Severity { return audit.Severity(i) }, //nolint:gosec // 0 to 5
		"text":     func(b []byte) string { return string(b) },
		"ladder":   ladder,
		"interval": interval,
		"preview":  preview,
	}
}

// count writes a number with thin spaces between thousands.
func count(n any) string {
	var v int64
	switch n := n.(type) {
	case int:
		v = int64(n)
	case int64:
		v = n
	default:
		return fmt.Sprint(n)
	}
	text := strconv.FormatInt(v, 10)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "−", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u2009" + text[i:]
	}
	return sign + text
}

// signed writes a difference of shares in points.
func signed(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return strings.Replace(strconv.FormatFloat(100*x, 'f', 1, 64), "-", "−", 1)
}

// bare is a share in per cent without the sign, for the ends of an interval.
func bare(x float64) string { return strings.TrimSuffix(chart.Percent(x), " %") }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// formula is how an estimate was made, for its tooltip.
func formula(e stat.Estimate) string {
	if !e.Defined() {
		return "not defined: " + e.Reason
	}
	text := fmt.Sprintf("%s, %g %% confidence, n=%d", e.Method, 100*e.Confidence, e.N)
	if finite(e.NEff) {
		text += fmt.Sprintf(", n_eff=%.1f", e.NEff)
	}
	if e.Clusters > 0 {
		text += fmt.Sprintf(", %d prompt groups", e.Clusters)
	}
	return text
}

// brief is the beginning of a text.
func brief(n int, s string) string {
	s = audit.Plain(s)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// when is a time that the script turns into the viewer's own.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2006-01-02 15:04") + " UTC</time>") //nolint:gosec // digits of a time
}

// words turns a snake_case name into words.
func words(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") }

// args collects named arguments for a part: args "key" value ...
func args(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("args needs names and values")
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("args: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// grade is how good a share is, for its colour: its bad end decides.
func grade(f audit.Figure, e stat.Estimate) string {
	if !e.Defined() || math.IsInf(e.Lo, 0) || math.IsInf(e.Hi, 0) {
		return "none"
	}
	bad := 1 - e.Lo
	if f.LowerIsBetter() {
		bad = e.Hi
	}
	switch {
	case bad <= .05:
		return "good"
	case bad <= .2:
		return "fair"
	}
	return "poor"
}

// severityName says what a rung of the ladder means.
func severityName(s audit.Severity) string {
	names := []string{
		"exact", "cosmetic", "minor value", "material value, shape or id",
		"false error or wrong family", "false success or phantom write",
	}
	if int(s) >= len(names) {
		return s.String()
	}
	return names[s]
}

// anchor is the fragment of a JSON Pointer on a call's page.
func anchor(pointer string) string { return "f" + pointer }
