package dashboard

import (
	"context"
	"math"
	"slices"
	"strconv"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/web/chart"
)

// calibrationView says how far the confidence that rehearsals state can be trusted.
type calibrationView struct {
	Summary    audit.Summary
	Figures    *audit.Figures // of the tool that is looked at, or of all; nil = nothing was audited
	Tools      []choice
	Experiment string // that trained the policy; "" = none is known
	Rewards    []chart.Line
}

func (v *calibrationView) summary() *audit.Summary { return &v.Summary }

func (s *site) calibrationPage() page {
	return page{
		path: "/calibration", name: "calibration", title: "Calibration", nav: true, filters: []string{"mode", "version", "split"},
		view: s.calibration,
	}
}

func (s *site) calibration(ctx context.Context, r *request) (any, error) {
	v := &calibrationView{}
	if r.Head == nil {
		return v, nil
	}
	var err error
	if v.Summary, err = s.Store.Summary(ctx, r.Run, r.slice()); err != nil {
		return nil, err
	}
	v.Figures = v.Summary.Pooled
	v.Tools = []choice{{"all tools", r.With("tool", "").URL("/calibration"), r.Tool == ""}}
	for i := range v.Summary.Tools {
		t := &v.Summary.Tools[i]
		if t.Calibration == nil && t.Tool != r.Tool {
			continue
		}
		if len(v.Tools) <= maxChoices || t.Tool == r.Tool {
			v.Tools = append(v.Tools, choice{t.Tool, r.With("tool", t.Tool).URL("/calibration"), t.Tool == r.Tool})
		}
		if t.Tool == r.Tool {
			v.Figures = t
		}
	}
	if v.Experiment, err = s.Store.ExperimentOf(ctx, r.Head.Policy); err != nil || v.Experiment == "" {
		return v, err
	}
	series, err := s.Store.Series(ctx, v.Experiment, audit.MetricReward, seriesPoints)
	if err != nil {
		return nil, err
	}
	v.Rewards = metricCharts(audit.MetricReward, series)
	return v, nil
}

// Reliability is the diagram, nil without a stated confidence.
func (v *calibrationView) Reliability() *chart.Reliability {
	if v.Figures == nil || v.Figures.Calibration == nil {
		return nil
	}
	d := &chart.Reliability{
		Title: "Stated confidence against how often the rehearsal was right",
		Desc:  "A calibrated policy lies on the dashed line; below it, it is too sure of itself. Right is below S3. Bars show how many rehearsals each point stands for.",
	}
	for _, b := range v.Figures.Calibration.Reliability {
		d.Bins = append(d.Bins, chart.Bin{Stated: b.Confidence, Right: b.Hits.Value, Lo: b.Hits.Lo, Hi: b.Hits.Hi, N: b.Hits.N})
	}
	return d
}

// Risk is what is left of the errors when only sure rehearsals are believed.
func (v *calibrationView) Risk() *chart.Line {
	if v.Figures == nil || v.Figures.Calibration == nil {
		return nil
	}
	series := chart.Series{Name: "material errors (S3+)", Class: "c2"}
	for _, p := range v.Figures.Calibration.Risk {
		series.Points = append(series.Points, chart.Point{
			X: p.Coverage, Label: chart.Percent(p.Coverage), Y: p.Risk.Value, Lo: p.Risk.Lo, Hi: p.Risk.Hi, N: p.Risk.N,
		})
	}
	return &chart.Line{
		Title: "Errors among the rehearsals that are believed", XName: "share believed, the surest first", Percent: true,
		Desc: "Believing only the surest rehearsals leaves fewer errors, if confidence means anything: the line should rise to the right.", Series: []chart.Series{series},
	}
}

// Survival is the share of rollouts without a material error, by number of calls.
func (v *calibrationView) Survival() *chart.Line {
	if v.Summary.Episodes == nil || len(v.Summary.Episodes.Survival) == 0 {
		return nil
	}
	points := v.Summary.Episodes.Survival
	series := chart.Series{Name: "no S3+ so far", Class: "c3", Points: []chart.Point{{X: 0, Y: 1, Lo: 1, Hi: 1, N: points[0].AtRisk}}}
	for _, p := range points {
		series.Points = append(series.Points, chart.Point{X: p.Time, Y: p.Survival.Value, Lo: p.Survival.Lo, Hi: p.Survival.Hi, N: p.AtRisk})
	}
	return &chart.Line{
		Title: "How many calls a rehearsed world lasts", XName: "calls of a rollout", Percent: true, Stairs: true,
		Desc: "Kaplan–Meier estimate of the share of rollouts that had no material error (S3 or worse) up to a call, with 95 % bands by prompt group.", Series: []chart.Series{series},
	}
}

// Horizon is the number of calls after which fewer than half of the rollouts
// are still without a material error; 0 = more than half are to the end.
func (v *calibrationView) Horizon() int {
	if v.Summary.Episodes == nil {
		return 0
	}
	for _, p := range v.Summary.Episodes.Survival {
		if p.Survival.Value < .5 {
			return int(p.Time)
		}
	}
	return 0
}

// Episode is one figure of whole rollouts.
func (v *calibrationView) Episode(name string) stat.Estimate {
	if v.Summary.Episodes == nil {
		return stat.Clustered(nil, .95)
	}
	return v.Summary.Episodes.Value(name)
}

// Sentence says whether confidence can be believed.
func (v *calibrationView) Sentence() string {
	if v.Figures == nil || v.Figures.Calibration == nil {
		return "These rehearsals state no confidence"
	}
	auc := v.Figures.Value("confidence_auc")
	switch {
	case !auc.Defined():
		return "Too few errors to tell whether confidence means anything"
	case auc.Lo > .7:
		return "Confidence tells right rehearsals from wrong ones"
	case auc.Hi < .6:
		return "Confidence says next to nothing about whether a rehearsal is right"
	}
	return "Confidence says a little about whether a rehearsal is right"
}

// seriesPoints bounds what a page draws of a training.
const seriesPoints = 60

// metricCharts draws one metric: a chart for each role, a colour for each arm, a
// line for each seed.
func metricCharts(metric string, series []audit.MetricSeries) []chart.Line {
	var arms []string
	byRole := map[audit.PolicyRole][]chart.Series{}
	for _, s := range series {
		if !slices.Contains(arms, s.Arm) {
			arms = append(arms, s.Arm)
		}
		class := "c" + strconv.Itoa(1+slices.Index(arms, s.Arm)%colours)
		line := chart.Series{Name: brief(30, s.Arm), Class: class, Quiet: true}
		if drawn := byRole[s.Role]; slices.ContainsFunc(drawn, func(d chart.Series) bool { return d.Name == line.Name }) {
			line.Unlisted = true
		}
		for _, p := range s.Points {
			point := chart.Point{X: float64(p.Step), Y: p.Value, Lo: p.Min, Hi: p.Max, N: p.N - p.NotFinite}
			if point.N == 0 {
				point.Y, point.Lo, point.Hi = math.NaN(), math.NaN(), math.NaN() // a gap; the page says why
			}
			line.Points = append(line.Points, point)
		}
		byRole[s.Role] = append(byRole[s.Role], line)
	}
	var charts []chart.Line
	for _, role := range []audit.PolicyRole{audit.WholePolicy, audit.ActRole, audit.RehearseRole} {
		if len(byRole[role]) == 0 {
			continue
		}
		title := words(metric)
		if role != audit.WholePolicy {
			title += ", " + roleName(role)
		}
		charts = append(charts, chart.Line{
			Title: title, XName: "step", Desc: "One line a seed, one colour an arm. Bands are the smallest and largest value where neighbouring steps are drawn as one.", Series: byRole[role],
		})
	}
	return charts
}

// colours is how many classes of series the style sheet knows.
const colours = 6

func roleName(role audit.PolicyRole) string {
	return map[audit.PolicyRole]string{audit.ActRole: "ACT", audit.RehearseRole: "REHEARSE"}[role]
}
