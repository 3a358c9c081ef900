package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/web/chart"
)

// gateList is the history of decisions.
type gateList struct {
	Gates []gateLine
	Only  string // digest of the one policy that is shown; "" = all
	All   string // the list without that
	First string
	Next  string
}

// gateLine is one decision in a list.
type gateLine struct {
	audit.GateRecord
	Href   string
	Policy string // the history of its policy
	Chosen bool   // it is the one that is shown
}

func (s *site) gatesPage() page {
	return page{
		path: "/gates", name: "gates", title: "Gates", nav: true, global: true,
		view: func(ctx context.Context, r *request) (any, error) {
			v := &gateList{Only: r.Query("policy"), All: r.URL("/gates")}
			filter := audit.GateFilter{PolicyDigest: v.Only}
			after := r.Query("after")
			gates, next, err := s.Store.Gates(ctx, filter, audit.Page{After: after})
			if err != nil {
				return nil, err
			}
			v.Gates = gateLines(gates, "")
			if after != "" {
				v.First = r.URL("/gates", "policy", v.Only)
			}
			if next != "" {
				v.Next = r.URL("/gates", "policy", v.Only, "after", next)
			}
			return v, nil
		},
	}
}

func gateLines(gates []audit.GateRecord, chosen string) []gateLine {
	lines := make([]gateLine, 0, len(gates))
	for _, g := range gates {
		l := newGateLine(g)
		l.Chosen = l.Href == chosen
		lines = append(lines, *l)
	}
	return lines
}

func newGateLine(g audit.GateRecord) *gateLine {
	return &gateLine{GateRecord: g, Href: gateURL("/gate", g.Run, g.Decided), Policy: filter{}.URL("/gates", "policy", g.PolicyDigest)}
}

func gateURL(path, run string, decided time.Time) string {
	return filter{Run: run}.URL(path, "decided", decided.UTC().Format(time.RFC3339Nano))
}

// Tone is the colour of the decision.
func (g gateLine) Tone() string { return statusTone(gate.Status(g.Status)) }

func statusTone(s gate.Status) string {
	switch s {
	case gate.Pass:
		return "good"
	case gate.Fail, gate.Error:
		return "poor"
	case gate.Inconclusive:
		return "fair"
	}
	return ""
}

// gateView is one decision with everything that led to it.
type gateView struct {
	*gate.Verdict
	History  []gateLine // of the same policy, newest first
	Reports  []tab
	Badge    string
	Findings []audit.Finding
	Left     int // findings that the page leaves out
	Buy      []string
}

// gateFindings is how many kinds of difference the page of a gate lists.
const gateFindings = 30

func (s *site) gatePage() page {
	return page{
		path: "/gate", name: "gate", title: "Gate", under: "/gates", global: true, view: s.gateView,
		parts: map[string]gin.HandlerFunc{"/gate/report": s.getGateReport},
	}
}

func (s *site) gateView(ctx context.Context, r *request) (any, error) {
	record, verdict, err := s.readGate(ctx, r.Query("run"), r.Query("decided"))
	if err != nil {
		return nil, err
	}
	here := gateURL("/gate", record.Run, record.Decided)
	v := &gateView{Verdict: verdict, Badge: gateURL("/gate/report", record.Run, record.Decided) + "&kind=badge"}
	for _, kind := range gate.ReportKinds() {
		v.Reports = append(v.Reports, tab{Name: string(kind), Href: gateURL("/gate/report", record.Run, record.Decided) + "&kind=" + string(kind)})
	}
	if e := verdict.Evidence; e != nil {
		v.Findings = e.Findings[:min(len(e.Findings), gateFindings)]
		v.Left = len(e.Findings) - len(v.Findings)
	}
	for _, need := range verdict.Needs {
		v.Buy = append(v.Buy, fmt.Sprintf("%s more calls of %s@%s %s in mode %s, for %s", count(need.Calls), need.Environment, need.Version, need.Tool, need.Mode, words(need.Figure)))
	}
	history, _, err := s.Store.Gates(ctx, audit.GateFilter{PolicyDigest: record.PolicyDigest}, audit.Page{Limit: 20})
	if err != nil {
		return nil, err
	}
	v.History = gateLines(history, here)
	return v, nil
}

func (s *site) readGate(ctx context.Context, run, decided string) (audit.GateRecord, *gate.Verdict, error) {
	at, err := time.Parse(time.RFC3339Nano, decided)
	if err != nil {
		return audit.GateRecord{}, nil, &audit.Error{Code: audit.CodeInvalid, Message: brief(60, decided) + " is no time of a decision", Hint: "follow a row of the list of gates"}
	}
	record, err := s.Store.Gate(ctx, run, at)
	if err != nil {
		return record, nil, err
	}
	verdict := &gate.Verdict{}
	if err := json.Unmarshal(record.Document, verdict); err != nil {
		return record, nil, &audit.Error{Code: audit.CodeInternal, Message: "the kept verdict cannot be read", Hint: "another version of understudy wrote it", Err: err}
	}
	return record, verdict, nil
}

// getGateReport answers with one kind of report, as a file but for the badge.
func (s *site) getGateReport(c *gin.Context) {
	_, verdict, err := s.readGate(c.Request.Context(), c.Query("run"), c.Query("decided"))
	if err != nil {
		s.fail(c, err)
		return
	}
	kind := gate.ReportKind(c.Query("kind"))
	text, err := gate.Report(kind, verdict)
	if err != nil {
		s.fail(c, err)
		return
	}
	if kind == gate.Badge {
		c.Data(http.StatusOK, "image/svg+xml", text)
		return
	}
	extension := map[gate.ReportKind]string{gate.JUnit: "xml", gate.SARIF: "sarif", gate.Markdown: "md", gate.JSON: "json", gate.HTML: "html"}[kind]
	c.Header("Content-Disposition", `attachment; filename="gate.`+extension+`"`)
	c.Data(http.StatusOK, "application/octet-stream", text)
}

// Tone is the colour of the verdict.
func (v *gateView) Tone() string { return statusTone(v.Status) }

// CheckTone is the colour of one check.
func (v *gateView) CheckTone(c gate.Check) string { return statusTone(c.Status) }

// gateChecks is how many conditions that do not hold the page draws.
const gateChecks = 60

// Blocking are the first checks that do not pass, the gravest first; Hidden is
// how many more there are.
func (v *gateView) Blocking() []gate.Check {
	all := v.failing()
	return all[:min(len(all), gateChecks)]
}

// Hidden counts the checks that do not pass and that the page leaves out.
func (v *gateView) Hidden() int { return max(0, len(v.failing())-gateChecks) }

func (v *gateView) failing() []gate.Check {
	order := []gate.Status{gate.Fail, gate.Error, gate.Inconclusive}
	checks := slices.DeleteFunc(slices.Clone(v.Checks), func(c gate.Check) bool { return c.Status == gate.Pass })
	slices.SortStableFunc(checks, func(a, b gate.Check) int {
		return slices.Index(order, a.Status) - slices.Index(order, b.Status)
	})
	return checks
}

// Passing are the checks that pass.
func (v *gateView) Passing() []gate.Check {
	return slices.DeleteFunc(slices.Clone(v.Checks), func(c gate.Check) bool { return c.Status != gate.Pass })
}

// Interval draws a check's bounds and limit; nil where it has none in [0,1].
func (v *gateView) Interval(c gate.Check) *chart.Interval {
	if c.Kind != gate.Limit || !c.Estimate.Defined() {
		return nil
	}
	return &chart.Interval{Title: c.Subject(), Value: c.Estimate.Value, Lo: c.Estimate.Lo, Hi: c.Estimate.Hi, Limit: &c.Limit, Class: statusTone(c.Status)}
}

// Counted reports whether the check counts things instead of bounding a share.
func (v *gateView) Counted(c gate.Check) bool { return c.Kind == gate.Count || c.Kind == gate.Findings }

// Changes reports whether the check compares with the baseline.
func (v *gateView) Changes(c gate.Check) bool { return c.Kind == gate.Change }

// Remark says what else there is to say about a check.
func (v *gateView) Remark(c gate.Check) string {
	var parts []string
	if c.Needs > 0 && c.Status != gate.Pass {
		parts = append(parts, fmt.Sprintf("needs %s more calls", count(c.Needs)))
	}
	if c.Waived != nil {
		parts = append(parts, fmt.Sprintf("waived by %s until %s: %s", c.Waived.By, c.Waived.Expires.Format(time.DateOnly), c.Waived.Reason))
	}
	if c.Informational {
		parts = append(parts, "informational")
	}
	if c.Critical {
		parts = append(parts, "critical")
	}
	if c.Reason != "" {
		parts = append(parts, c.Reason)
	}
	return audit.Plain(strings.Join(parts, "; "))
}

// New reports whether a finding is neither known nor in the baseline.
func (v *gateView) IsNew(f audit.Finding) bool { return slices.Contains(v.New, f.Fingerprint) }
