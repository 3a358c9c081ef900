package dashboard

import (
	"context"
	"slices"
	"strconv"

	"understudy/audit"
	"understudy/web/chart"
)

// trainingView is one experiment: its arms side by side, all seeds.
type trainingView struct {
	Experiment  string // "" = nobody trained anything yet
	Experiments []choice
	Trainings   []audit.Training
	Metrics     []tab // "" is the usual ones together
	Charts      []chart.Line
	NotFinite   []string // metrics that hold numbers that are none
	Sweep       []chart.Line
	SweepCalls  int  // that were rehearsed several times
	Sampled     bool // not all calls of the run
}

// usualMetrics are drawn when none is asked for.
func usualMetrics() []string {
	return []string{audit.MetricFidelity, audit.MetricFSR, audit.MetricReward, audit.MetricLength, audit.MetricEntropy}
}

func (s *site) trainingPage() page {
	return page{path: "/training", name: "training", title: "Training", nav: true, view: s.training}
}

func (s *site) training(ctx context.Context, r *request) (any, error) {
	v := &trainingView{Experiment: r.Query("experiment")}
	if err := s.sweep(ctx, r, v); err != nil {
		return nil, err
	}
	experiments, err := s.Store.Experiments(ctx)
	if err != nil || len(experiments) == 0 && v.Experiment == "" {
		return v, err
	}
	if v.Experiment == "" {
		v.Experiment = experiments[0]
	}
	if !slices.Contains(experiments, v.Experiment) {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: "experiment " + brief(80, v.Experiment) + " does not exist", Hint: "choose one of the list"}
	}
	for _, name := range experiments {
		v.Experiments = append(v.Experiments, choice{brief(60, name), name, name == v.Experiment})
	}
	if v.Trainings, err = s.Store.Trainings(ctx, v.Experiment); err != nil {
		return nil, err
	}
	names, err := s.Store.MetricNames(ctx, v.Experiment)
	if err != nil {
		return nil, err
	}
	return v, s.drawMetrics(ctx, r, v, names)
}

// drawMetrics draws the metric that is asked for, or the usual ones.
func (s *site) drawMetrics(ctx context.Context, r *request, v *trainingView, names []string) error {
	asked := r.Query("metric")
	url := func(metric string) string { return r.URL("/training", "experiment", v.Experiment, "metric", metric) }
	v.Metrics = []tab{{Name: "the usual ones", Href: url(""), Chosen: asked == ""}}
	wanted := []string{asked}
	if asked == "" {
		wanted = slices.DeleteFunc(usualMetrics(), func(m string) bool { return !slices.Contains(names, m) })
		if len(wanted) == 0 {
			wanted = names[:min(len(names), 3)]
		}
	}
	for _, name := range names {
		v.Metrics = append(v.Metrics, tab{Name: words(name), Href: url(name), Chosen: name == asked})
	}
	for _, metric := range wanted {
		series, err := s.Store.Series(ctx, v.Experiment, metric, seriesPoints)
		if err != nil {
			return err
		}
		for _, one := range series {
			for _, p := range one.Points {
				if p.NotFinite > 0 && !slices.Contains(v.NotFinite, metric) {
					v.NotFinite = append(v.NotFinite, metric)
				}
			}
		}
		v.Charts = append(v.Charts, metricCharts(metric, series)...)
	}
	return nil
}

// sweep draws what several private rehearsals of a call would have been worth,
// from the calls of the bar's run.
func (s *site) sweep(ctx context.Context, r *request, v *trainingView) error {
	if r.Head == nil || r.Head.Pairs == 0 {
		return nil
	}
	sample, err := s.Store.SampleCalls(ctx, r.Run)
	if err != nil {
		return err
	}
	v.Sampled = sample.Through != ""
	narrow(sample, r)
	points := audit.RehearsalSweep(sample.Calls)
	for _, rule := range []audit.SweepRule{audit.AnyError, audit.MajorityError} {
		avoided, suppressed := chart.Series{Name: "errors avoided", Class: "c3"}, chart.Series{Name: "correct calls suppressed", Class: "c2"}
		for _, p := range points {
			if p.Rule != rule {
				continue
			}
			v.SweepCalls = max(v.SweepCalls, p.Avoided.N+p.Suppressed.N)
			x, label := float64(p.Attempts), strconv.Itoa(p.Attempts)
			if p.Avoided.Defined() {
				avoided.Points = append(avoided.Points, chart.Point{X: x, Label: label, Y: p.Avoided.Value, Lo: p.Avoided.Lo, Hi: p.Avoided.Hi, N: p.Avoided.N})
			}
			if p.Suppressed.Defined() {
				suppressed.Points = append(suppressed.Points, chart.Point{X: x, Label: label, Y: p.Suppressed.Value, Lo: p.Suppressed.Lo, Hi: p.Suppressed.Hi, N: p.Suppressed.N})
			}
		}
		if len(avoided.Points)+len(suppressed.Points) == 0 {
			continue
		}
		v.Sweep = append(v.Sweep, chart.Line{
			Title: "Held back when " + sweepRule(rule) + " foresees an error", XName: "private rehearsals of a call", Percent: true,
			Desc:   "Of the calls that the sandbox refuses, how many would have been held back; of those that succeed, how many as well. 95 % Wilson bands on n/deff by prompt group.",
			Series: []chart.Series{avoided, suppressed},
		})
	}
	return nil
}

func sweepRule(rule audit.SweepRule) string {
	if rule == audit.AnyError {
		return "any rehearsal"
	}
	return "a majority"
}
