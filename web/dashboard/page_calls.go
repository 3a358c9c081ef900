package dashboard

import (
	"context"
	"slices"
	"strconv"

	"understudy/audit"
)

// callList is a page of a run's calls, worst first.
type callList struct {
	Summary   audit.Summary
	Lines     []audit.CallLine
	First     string // URL of the first page; "" = this is it
	Next      string
	Severity  string
	Real      string
	Rehearsed string
	Masked    string
	Choices   []barField // beside the bar's: severity and masks
}

func (l *callList) summary() *audit.Summary { return &l.Summary }

func (s *site) callsPage() page {
	return page{
		path: "/calls", name: "calls", title: "Calls", nav: true, filters: []string{"tool", "mode", "version", "split"},
		view: func(ctx context.Context, r *request) (any, error) { return s.calls(ctx, r) },
	}
}

// callsPerPage keeps a page within the weight of a first paint.
const callsPerPage = 50

func (s *site) calls(ctx context.Context, r *request) (*callList, error) {
	l := &callList{Severity: r.Query("severity"), Real: r.Query("real"), Rehearsed: r.Query("rehearsed"), Masked: r.Query("masked")}
	if r.Head == nil {
		return l, nil
	}
	f := audit.CallFilter{Tool: r.Tool, Slice: r.slice(), Real: l.Real, Rehearsed: l.Rehearsed}
	if l.Severity != "" {
		n, err := strconv.Atoi(l.Severity)
		if err != nil || n < 0 || n >= audit.Severities {
			return nil, &audit.Error{Code: audit.CodeInvalid, Message: "severity " + l.Severity + " does not exist", Hint: "give 0 to 5"}
		}
		f.MinSeverity = audit.Severity(n)
	}
	switch l.Masked {
	case "", "only", "none":
	default:
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "masked=" + l.Masked + " is no choice", Hint: "only, none, or leave it out"}
	}
	if l.Masked != "" {
		f.Masked = new(l.Masked == "only")
	}
	var err error
	if l.Summary, err = s.Store.Summary(ctx, r.Run, r.slice()); err != nil {
		return nil, err
	}
	after := r.Query("after")
	var next string
	if l.Lines, next, err = s.Store.Calls(ctx, r.Run, f, audit.Page{After: after, Limit: callsPerPage}); err != nil {
		return nil, err
	}
	words := []string{"severity", l.Severity, "real", l.Real, "rehearsed", l.Rehearsed, "masked", l.Masked}
	if after != "" {
		l.First = r.URL("/calls", words...)
	}
	if next != "" {
		l.Next = r.URL("/calls", append(slices.Clone(words), "after", next)...)
	}
	l.choices()
	return l, nil
}

func (l *callList) choices() {
	severities := []choice{{"any severity", "", l.Severity == ""}}
	for i := 1; i < audit.Severities; i++ {
		text := strconv.Itoa(i)
		severities = append(severities, choice{"S" + text + " and worse", text, l.Severity == text})
	}
	l.Choices = []barField{
		{"severity", "Severity", severities},
		{"masked", "Masked", []choice{
			{"with and without verdict", "", l.Masked == ""}, {"with verdict", "none", l.Masked == "none"}, {"masked only", "only", l.Masked == "only"},
		}},
	}
}
