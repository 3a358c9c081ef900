package gate

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"

	"understudy/audit"
)

// Sticky is the first line of the Markdown report: a comment that is found again
// by it is replaced, not repeated.
const Sticky = "<!-- understudy gate -->"

// The longest tables that a pull request comment (65,536 characters) takes.
const (
	openRows   = 40
	foldedRows = 60
	needRows   = 20
)

// ReportMarkdown is the verdict for a step summary or a sticky comment: the
// sentence, what did not pass, what is needed, the gravest findings, and the
// rest folded away.
func ReportMarkdown(v *Verdict) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n## %s %s\n\n%s\n\n", Sticky, symbol(v.Status), v.Status, md(v.Line))
	fmt.Fprintf(&b, "Run %s of policy %s", code(v.Evidence.Run.ID), code(v.Evidence.Run.Policy))
	if v.Evidence.Baseline != nil {
		fmt.Fprintf(&b, ", compared with %s", code(v.Evidence.Baseline.ID))
	}
	fmt.Fprintf(&b, ". Decided %s.\n\n", v.Decided.Format("2006-01-02 15:04 UTC"))
	open, passed := split(v.Checks)
	if len(open) > 0 {
		table(&b, open[:min(len(open), openRows)])
		more(&b, len(open)-openRows, "checks that did not pass")
	}
	for i, n := range v.Needs {
		if i == needRows {
			more(&b, len(v.Needs)-needRows, "orders")
			break
		}
		fmt.Fprintf(&b, "- needs %d more calls on %s (%s)\n", n.Calls, code(n.Tool), n.Figure)
	}
	for _, note := range v.Notes {
		fmt.Fprintf(&b, "- %s\n", md(note))
	}
	gravest(&b, v)
	if len(passed) > 0 {
		fmt.Fprintf(&b, "\n<details><summary>%d checks passed</summary>\n\n", len(passed))
		table(&b, passed[:min(len(passed), foldedRows)])
		more(&b, len(passed)-foldedRows, "checks that passed")
		b.WriteString("\n</details>\n")
	}
	fmt.Fprintf(&b, "\nEach value is followed by its one-sided bounds at the corrected level, n, n_eff and the formula; the cluster is the prompt group. Policy %s.\n", code(v.Policy.Digest[:12]))
	return []byte(b.String())
}

// split parts the checks into those to look at, gravest first, and those that passed.
func split(checks []Check) (open, passed []*Check) {
	for i := range checks {
		if checks[i].Status == Pass {
			passed = append(passed, &checks[i])
		} else {
			open = append(open, &checks[i])
		}
	}
	weight := func(c *Check) int {
		if !c.decides() {
			return 0
		}
		return 1 + c.Status.rank()
	}
	slices.SortStableFunc(open, func(a, b *Check) int { return cmp.Compare(weight(b), weight(a)) })
	return open, passed
}

func table(b *strings.Builder, checks []*Check) {
	b.WriteString("| | tool | figure | value [bounds] | limit | n | n_eff | formula | |\n|-|-|-|-|-|-:|-:|-|-|\n")
	for _, c := range checks {
		fmt.Fprintf(b, "| %s | %s | %s | %s [%s, %s] | %s %s | %d | %s | %s | %s |\n",
			symbol(c.Status), code(cmp.Or(c.Tool, place(c))), md(cmp.Or(string(c.Figure), string(c.Kind))),
			number(c.Estimate.Value), number(c.Estimate.Lo), number(c.Estimate.Hi), md(c.Bound), number(c.Limit),
			c.Estimate.N, number(c.Estimate.NEff), md(c.Estimate.Method), md(remark(c)))
	}
	b.WriteByte('\n')
}

func more(b *strings.Builder, n int, what string) {
	if n > 0 {
		fmt.Fprintf(b, "… and %d more %s: see the JSON report.\n\n", n, what)
	}
}

// remark is what else is to be said of a check.
func remark(c *Check) string {
	var parts []string
	if c.Critical {
		parts = append(parts, "critical")
	}
	if c.Informational {
		parts = append(parts, "informational")
	}
	if c.Waived != nil {
		parts = append(parts, fmt.Sprintf("waived by %s until %s: %s", c.Waived.By, c.Waived.Expires.AddDate(0, 0, -1).Format("2006-01-02"), c.Waived.Reason))
	}
	if c.Needs > 0 {
		parts = append(parts, fmt.Sprintf("needs %d more calls", c.Needs))
	}
	if c.Reason != "" {
		parts = append(parts, c.Reason)
	}
	return strings.Join(parts, "; ")
}

// gravest lists the five gravest findings, new ones first.
func gravest(b *strings.Builder, v *Verdict) {
	fresh := make(map[string]bool, len(v.New))
	for _, f := range v.New {
		fresh[f] = true
	}
	findings := slices.Clone(v.Evidence.Findings)
	if len(findings) == 0 {
		return
	}
	slices.SortStableFunc(findings, func(x, y audit.Finding) int {
		return cmp.Or(cmp.Compare(rankNew(fresh[y.Fingerprint]), rankNew(fresh[x.Fingerprint])), cmp.Compare(y.Severity, x.Severity), cmp.Compare(y.Count, x.Count))
	})
	b.WriteString("\nGravest differences:\n\n")
	for _, f := range findings[:min(5, len(findings))] {
		mark := ""
		if fresh[f.Fingerprint] {
			mark = " (new)"
		}
		fmt.Fprintf(b, "- %s%s %s\n", md(findingText(f)), mark, code(f.Fingerprint))
	}
}

func rankNew(isNew bool) int {
	if isNew {
		return 1
	}
	return 0
}

func symbol(s Status) string {
	switch s {
	case Pass:
		return "✅"
	case Fail:
		return "❌"
	case Inconclusive:
		return "❔"
	case Error:
		return "💥"
	}
	return string(s)
}

// code shows a name in a code element: there, nobody is mentioned and nothing
// becomes a link.
func code(s string) string { return "<code>" + md(s) + "</code>" }

// md writes a text so that no character of it is Markdown: every punctuation
// mark but the harmless ones becomes a character reference, which CommonMark
// never reads as structure (section 2.5).
func md(s string) string {
	runes := []rune(plain(s))
	word := func(i int) bool { return i >= 0 && i < len(runes) && isWord(runes[i]) }
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == '_' && word(i-1) && word(i+1), r == ',' || r == '%' || r == ' ', r == '.' && !link(runes, i), r > 127, isWord(r):
			b.WriteRune(r)
		case r == '-' && i > 0:
			b.WriteRune(r)
		case r == '<' || r == '>' || r == '&' || r == '"' || r == '\'':
			b.WriteString(html.EscapeString(string(r)))
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}

func isWord(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// link reports whether the point at i could make "www." or a domain name.
func link(runes []rune, i int) bool {
	digit := func(j int) bool { return j >= 0 && j < len(runes) && runes[j] >= '0' && runes[j] <= '9' }
	end := i+1 == len(runes) || runes[i+1] == ' '
	return !end && (!digit(i-1) || !digit(i+1))
}
