package dashboard

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/web/chart"
)

// toolList is one row a tool.
type toolList struct {
	Summary audit.Summary
	Tools   []toolRow
	Several bool // environments
	All     int  // tools; Tools are those of this page
	Sort    string
	Sorts   []choice
	First   string // of the list; "" = this is it
	Next    string
}

// toolsShown is how many tools a page shows: a row takes two kilobytes.
const toolsShown = 50

func (t *toolList) summary() *audit.Summary { return &t.Summary }

// toolRow is a tool with its trend over checkpoints.
type toolRow struct {
	toolLine
	Trend chart.Chart // nil = fewer than two checkpoints
}

func (s *site) toolsPage() page {
	return page{
		path: "/tools", name: "tools", title: "Tools", nav: true, filters: []string{"mode", "version", "split"}, keeps: []string{"sort"},
		view: func(ctx context.Context, r *request) (any, error) { return s.tools(ctx, r) },
	}
}

func (s *site) tools(ctx context.Context, r *request) (*toolList, error) {
	t := &toolList{Sort: r.Query("sort")}
	if r.Head == nil {
		return t, nil
	}
	var err error
	if t.Summary, err = s.Store.Summary(ctx, r.Run, r.slice()); err != nil {
		return nil, err
	}
	for _, line := range newToolLines(t.Summary.Tools) {
		t.Tools = append(t.Tools, toolRow{toolLine: line})
		t.Several = t.Several || line.Environment != t.Summary.Tools[0].Environment
	}
	t.sort()
	if err := t.cut(r); err != nil {
		return nil, err
	}
	return t, s.trends(ctx, r, t)
}

// cut leaves the rows of the page that is asked for.
func (t *toolList) cut(r *request) error {
	from, err := position(r.Query("after"))
	if err != nil {
		return err
	}
	t.All = len(t.Tools)
	from = min(from, t.All)
	to := min(from+toolsShown, t.All)
	if from > 0 {
		t.First = r.URL("/tools", "sort", t.Sort)
	}
	if to < t.All {
		t.Next = r.URL("/tools", "sort", t.Sort, "after", strconv.Itoa(to))
	}
	t.Tools = t.Tools[from:to]
	return nil
}

// sort orders the rows; the lower bound of faithfulness, the worst first, unless
// another order was asked for.
func (t *toolList) sort() {
	orders := []struct {
		name, value string
		less        func(a, b *toolRow) int
	}{
		{"worst lower bound", "", func(a, b *toolRow) int { return cmp.Compare(lower(a.Faithful), lower(b.Faithful)) }},
		{"proven worst", "proven", func(a, b *toolRow) int { return -cmp.Compare(a.excess(), b.excess()) }},
		{"false success", "fsr", func(a, b *toolRow) int { return -cmp.Compare(value(a.FSR), value(b.FSR)) }},
		{"most calls", "calls", func(a, b *toolRow) int { return -cmp.Compare(a.Pairs, b.Pairs) }},
		{"name", "name", func(a, b *toolRow) int { return cmp.Compare(a.Tool, b.Tool) }},
	}
	chosen := orders[0]
	for _, o := range orders {
		if o.value == t.Sort {
			chosen = o
		}
		t.Sorts = append(t.Sorts, choice{o.name, o.value, o.value == t.Sort})
	}
	slices.SortStableFunc(t.Tools, func(a, b toolRow) int { return cmp.Or(chosen.less(&a, &b), cmp.Compare(a.Tool, b.Tool)) })
}

func value(e stat.Estimate) float64 {
	if !e.Defined() {
		return -1
	}
	return e.Value
}

// trends draws each tool's faithful share over the policy's checkpoints.
func (s *site) trends(ctx context.Context, r *request, t *toolList) error {
	runs := lineage(r)
	if len(runs) < 2 {
		return nil
	}
	names := make([]string, len(runs))
	for i := range runs {
		names[i] = runs[i].Name
	}
	summaries, err := s.Store.Trend(ctx, names, r.slice())
	if err != nil {
		return err
	}
	for i := range t.Tools {
		row := &t.Tools[i]
		spark := chart.Spark{Title: "Faithful calls of " + audit.Plain(row.Tool) + " over checkpoints", Class: "c3"}
		points := 0
		for j := range summaries {
			v := math.NaN()
			for k := range summaries[j].Tools {
				if f := &summaries[j].Tools[k]; f.Tool == row.Tool && f.Environment == row.Environment {
					v = 1 - f.Value(string(audit.FigureMaterial)).Value
				}
			}
			if !math.IsNaN(v) {
				points++
			}
			spark.Values = append(spark.Values, v)
		}
		if points > 1 {
			row.Trend = spark
		}
	}
	return nil
}

// ladder is a tool's severities as a stacked bar.
func ladder(f any) (chart.Ladder, error) {
	var figures *audit.Figures
	switch f := f.(type) {
	case toolLine:
		figures = &f.Figures
	case toolRow:
		figures = &f.Figures
	case *audit.Figures:
		figures = f
	case audit.Figures:
		figures = &f
	default:
		return chart.Ladder{}, &audit.Error{Code: audit.CodeInternal, Message: "a ladder needs figures"}
	}
	l := chart.Ladder{Title: "Severity of calls of " + audit.Plain(figures.Tool)}
	for i, n := range figures.Ladder {
		l.Parts = append(l.Parts, chart.Part{Name: "S" + strconv.Itoa(i) + " " + severityName(audit.Severity(i)), Class: "s" + strconv.Itoa(i), N: n})
	}
	return l, nil
}

// interval draws a share between its bounds.
func interval(e stat.Estimate) chart.Interval {
	return chart.Interval{Title: "Interval", Value: e.Value, Lo: e.Lo, Hi: e.Hi, Class: "c3"}
}
