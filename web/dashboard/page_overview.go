package dashboard

import (
	"cmp"
	"context"
	"slices"
	"time"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/web/chart"
)

// maxCheckpoints is how many runs of a policy the overview compares.
const maxCheckpoints = 12

// overview answers one question: may I trust this policy's imagination, and
// where not?
type overview struct {
	Summary     audit.Summary
	Verdict     verdict
	Tools       []toolLine // the worst
	More        int        // tools beyond them
	Tiles       []tile
	Checkpoints []checkpointLine
	Fidelity    chart.Chart // nil = fewer than two checkpoints
	Imagination chart.Chart
	Masked      []maskLine
	Gate        *gateLine // the last decision about the run; nil = none
}

func (o *overview) summary() *audit.Summary { return &o.Summary }

// tile is one number of the first screen.
type tile struct {
	Name, Explain string
	Estimate      *stat.Estimate
	Points        bool   // the estimate is a difference
	Tone          string // of its colour
	Text, Small   string // instead of an estimate
}

// checkpointLine is one run of the policy.
type checkpointLine struct {
	Run                                               audit.RunHead
	Here                                              bool
	Faithful, FSR, LeafF1, Imagined, Executed, Beyond stat.Estimate
	Audited, Masked                                   float64
}

type maskLine struct {
	Reason audit.MaskReason
	Calls  int
}

func (s *site) overviewPage() page {
	return page{
		path: "/", name: "overview", title: "Overview", nav: true, filters: []string{"mode", "version", "split"},
		view: func(ctx context.Context, r *request) (any, error) { return s.overview(ctx, r) },
	}
}

func (s *site) overview(ctx context.Context, r *request) (*overview, error) {
	o := &overview{}
	if r.Head == nil {
		return o, nil
	}
	var err error
	if o.Summary, err = s.Store.Summary(ctx, r.Run, r.slice()); err != nil {
		return nil, err
	}
	if o.Summary.Pooled == nil {
		return o, nil
	}
	o.Tools = newToolLines(o.Summary.Tools)
	worstFirst(o.Tools)
	o.Verdict = newVerdict(o.Tools)
	const shown = 6
	if len(o.Tools) > shown {
		o.Tools, o.More = o.Tools[:shown], len(o.Tools)-shown
	}
	o.tiles()
	gates, _, err := s.Store.Gates(ctx, audit.GateFilter{Run: r.Run}, audit.Page{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(gates) > 0 {
		o.Gate = newGateLine(gates[0])
	}
	for _, reason := range audit.MaskReasons() {
		if n := o.Summary.Pooled.Masked[reason]; n > 0 {
			o.Masked = append(o.Masked, maskLine{reason, n})
		}
	}
	return o, s.checkpoints(ctx, r, o)
}

func (o *overview) tiles() {
	p, e := o.Summary.Pooled, o.Summary.Episodes
	share := func(name, explain string, figure audit.Figure, value stat.Estimate) {
		o.Tiles = append(o.Tiles, tile{Name: name, Explain: explain, Estimate: &value, Tone: grade(figure, value)})
	}
	share("False success", "of the calls that the sandbox refuses, those that were imagined to work", audit.FigureFSR, p.Value(string(audit.FigureFSR)))
	share("Faithful calls", "calls without a material difference: S0 to S2", audit.FigureOutcome, complement(p.Value(string(audit.FigureMaterial))))
	share("Fields right", "weighted F1 of the fields of ok answers", audit.FigureLeafF1, p.Value(string(audit.FigureLeafF1)))
	share("Effects right", "F1 of the state cells that writes claim to change", audit.FigureEffectF1, p.Value(string(audit.FigureEffectF1)))
	if e != nil {
		gap := e.Value("imagination_gap")
		t := tile{Name: "Imagination gap", Explain: "success as rehearsed minus success as executed, per rollout", Estimate: &gap, Points: true, Tone: "none"}
		if gap.Defined() && gap.Lo > 0 {
			t.Tone = "poor"
		}
		o.Tiles = append(o.Tiles, t)
	}
	audited, masked := shares(p)
	o.Tiles = append(o.Tiles,
		tile{Name: "Audit rate", Explain: "of the calls that were seen, those that π drew to be audited", Text: chart.Percent(audited), Small: throughput(&o.Summary)},
		tile{Name: "Masked", Explain: "of the drawn calls, those that have no verdict: they count in no figure", Text: chart.Percent(masked), Small: count(p.Calls) + " calls"})
}

// shares are the audited share of calls, and the masked share of those.
func shares(f *audit.Figures) (audited, masked float64) {
	if f.Calls == 0 {
		return 0, 0
	}
	return 1 - float64(f.Masked[audit.MaskNotSampled])/float64(f.Calls), f.MaskedShare()
}

// throughput is how fast a run was audited, or is.
func throughput(s *audit.Summary) string {
	end := s.Run.Completed
	if end.IsZero() {
		end = s.Computed
	}
	if d := end.Sub(s.Run.Started); d > time.Second && s.Run.Pairs > 0 {
		return chart.Number(float64(int(10*float64(s.Run.Pairs)/d.Seconds()))/10) + " calls/s"
	}
	return ""
}

// lineage are the runs of one policy that can stand on one axis: the newest of
// each checkpoint, oldest first.
func lineage(r *request) []audit.RunHead {
	taken := map[int64]bool{}
	var runs []audit.RunHead
	take := func(h audit.RunHead) {
		if h.Policy == r.Head.Policy && h.Pairs > 0 && !taken[h.Checkpoint] && len(runs) < maxCheckpoints {
			taken[h.Checkpoint] = true
			runs = append(runs, h)
		}
	}
	take(*r.Head)
	for _, h := range r.Runs {
		take(h)
	}
	slices.SortFunc(runs, func(a, b audit.RunHead) int { return cmp.Compare(a.Checkpoint, b.Checkpoint) })
	return runs
}

func (s *site) checkpoints(ctx context.Context, r *request, o *overview) error {
	runs := lineage(r)
	names := make([]string, len(runs))
	for i := range runs {
		names[i] = runs[i].Name
	}
	summaries, err := s.Store.Pooled(ctx, names, r.slice())
	if err != nil {
		return err
	}
	for i := range summaries {
		at := &summaries[i]
		if at.Pooled == nil {
			continue
		}
		l := checkpointLine{
			Run: at.Run, Here: at.Run.Name == r.Run, FSR: at.Pooled.Value(string(audit.FigureFSR)),
			Faithful: complement(at.Pooled.Value(string(audit.FigureMaterial))), LeafF1: at.Pooled.Value(string(audit.FigureLeafF1)),
			Beyond: at.Pooled.Value(string(audit.CountRightByWrong)),
		}
		l.Audited, l.Masked = shares(at.Pooled)
		if at.Episodes != nil {
			l.Imagined, l.Executed = at.Episodes.Value(string(audit.CountImagined)), at.Episodes.Value(string(audit.CountExecuted))
		}
		o.Checkpoints = append(o.Checkpoints, l)
	}
	o.draw(r)
	return nil
}

// draw makes the charts when there is something to compare.
func (o *overview) draw(r *request) {
	if len(o.Checkpoints) < 2 {
		return
	}
	series := func(name, class string, value func(*checkpointLine) stat.Estimate) chart.Series {
		s := chart.Series{Name: name, Class: class}
		for i := range o.Checkpoints {
			l := &o.Checkpoints[i]
			if e := value(l); e.Defined() {
				s.Points = append(s.Points, chart.Point{
					X: float64(i), Label: "step " + count(l.Run.Checkpoint), Y: e.Value, Lo: e.Lo, Hi: e.Hi, N: e.N, Href: r.With("run", l.Run.Name).URL("/"),
				})
			}
		}
		return s
	}
	o.Fidelity = chart.Line{
		Title: "Fidelity by checkpoint", Desc: "Share of calls that are faithful, field F1 and false success rate, with 95 % intervals.",
		XName: "checkpoint", Percent: true, Series: []chart.Series{
			series("faithful calls", "c3", func(l *checkpointLine) stat.Estimate { return l.Faithful }),
			series("field F1", "c1", func(l *checkpointLine) stat.Estimate { return l.LeafF1 }),
			series("false success", "c2", func(l *checkpointLine) stat.Estimate { return l.FSR }),
		},
	}
	imagined := chart.Line{
		Title: "Task success: imagined against executed", Desc: "What the policy's own world rewards, and what the sandbox does. A gap that grows is a policy that learns to please its imagination.",
		XName: "checkpoint", Percent: true, Series: []chart.Series{
			series("imagined", "c4", func(l *checkpointLine) stat.Estimate { return l.Imagined }),
			series("executed", "c5", func(l *checkpointLine) stat.Estimate { return l.Executed }),
		},
	}
	if len(imagined.Series[0].Points) > 0 {
		o.Imagination = imagined
	}
}
