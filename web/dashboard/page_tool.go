package dashboard

import (
	"context"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/web/chart"
)

// toolView is one tool: what is wrong with it, how often and where.
type toolView struct {
	Summary  audit.Summary
	Tool     toolLine
	Found    bool
	Figures  []figureLine
	Splits   []splitLine
	Frequent *frequentFault // the most frequent false success; nil = none
	Field    *audit.Field   // the most frequent wrong field; nil = none
	Tree     []*fieldNode
	Outcomes []audit.Field // what is wrong with answers as a whole
	Effects  []audit.Field
	Matrix   chart.Chart
}

func (t *toolView) summary() *audit.Summary { return &t.Summary }

// figureLine is one figure with its meaning.
type figureLine struct {
	Name, Explain, Tone string
	Estimate            stat.Estimate
}

// splitLine are a tool's main figures in one slice.
type splitLine struct {
	Name, Href    string
	Faithful, FSR stat.Estimate
	LeafF1        stat.Estimate
	Scored        int
}

// frequentFault is a cell of the outcome matrix with an example behind it.
type frequentFault struct {
	Real      string // outcome label of the matrix
	Rehearsed string
	N         float64
	Of        float64         // real outcomes of that kind
	Example   *audit.CallLine // nil = gone
}

// fieldNode is one place in a tool's answers, with what goes wrong there and below.
type fieldNode struct {
	Name     string
	Pattern  string
	Pairs    int // of all differences here and below; a pair may count twice
	Fields   []audit.Field
	Children []*fieldNode
}

func (s *site) toolPage() page {
	return page{
		path: "/tool", name: "tool", title: "Tool", under: "/tools", filters: []string{"mode", "version", "split"},
		view: func(ctx context.Context, r *request) (any, error) { return s.tool(ctx, r) },
	}
}

func (s *site) tool(ctx context.Context, r *request) (*toolView, error) {
	t := &toolView{}
	if r.Head == nil || r.Tool == "" {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "no tool is named", Hint: "choose one from the list of tools"}
	}
	var err error
	if t.Summary, err = s.Store.Summary(ctx, r.Run, r.slice()); err != nil {
		return nil, err
	}
	for _, f := range t.Summary.Tools {
		if f.Tool == r.Tool && (r.Environment == "" || f.Environment == r.Environment) {
			t.Tool, t.Found = newToolLine(f), true
			break
		}
	}
	if !t.Found {
		return t, nil
	}
	t.figures()
	t.matrix(r)
	for _, read := range []func(context.Context, *request, *toolView) error{s.toolSplits, s.toolFrequent, s.toolFields} {
		if err := read(ctx, r, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// figures are the family of figures that a tool is judged by, never one mean.
func (t *toolView) figures() {
	for _, f := range []struct {
		figure        audit.Figure
		name, explain string
	}{
		{audit.FigureFSR, "False success", "P(rehearsed ok | the sandbox refuses)"},
		{audit.FigureFalseError, "False error", "P(rehearsed error | the sandbox accepts)"},
		{audit.FigureErrorFamily, "Same error family", "where both sides are errors"},
		{audit.FigureOutcome, "Same outcome", "same class and family, over all calls"},
		{audit.FigureLeafF1, "Fields F1", "weighted, of ok answers"},
		{audit.FigureShape, "Shape", "typed paths in common (Jaccard)"},
		{audit.FigureExact, "Exact", "nothing but masked paths differs"},
		{audit.FigureIDIntegrity, "Ids", "used consistently in the episode"},
		{audit.FigureEffectF1, "Effects F1", "state cells claimed against changed"},
		{audit.FigurePhantomWrite, "Phantom writes", "a change is claimed and none is made"},
		{audit.FigureSilentWrite, "Silent writes", "a change is made and none is claimed"},
		{audit.FigureValidity, "Valid", "the rehearsal parses and fits the envelope"},
	} {
		e := t.Tool.Value(string(f.figure))
		if e.Defined() {
			t.Figures = append(t.Figures, figureLine{f.name, f.explain, grade(f.figure, e), e})
		}
	}
}

// matrix is real outcomes against rehearsed ones; a click shows the calls.
func (t *toolView) matrix(r *request) {
	var labels []string
	for _, label := range audit.OutcomeLabels() {
		met := t.Tool.Matrix[label] != nil
		for _, row := range t.Tool.Matrix {
			met = met || row[label] > 0
		}
		if met {
			labels = append(labels, label)
		}
	}
	m := chart.Matrix{
		Title: "Outcomes of " + audit.Plain(r.Tool) + ": executed against rehearsed", RowName: "executed", ColName: "rehearsed",
		Desc: "Each field counts calls, weighted by 1/π; the diagonal agrees. Where the sandbox refuses and the rehearsal says ok is a false success.",
		Rows: labels, Cols: labels, AlarmText: "false success",
		Alarm: func(i, j int) bool { return isErrorLabel(labels[i]) && !isErrorLabel(labels[j]) },
	}
	for _, row := range labels {
		cells := make([]chart.Cell, len(labels))
		for j, col := range labels {
			cells[j] = chart.Cell{N: t.Tool.Matrix[row][col], Href: r.URL("/calls", "real", ledgerLabel(row), "rehearsed", ledgerLabel(col))}
			if n := cells[j].N; n > 0 && m.Alarm(slices.Index(labels, row), j) && (t.Frequent == nil || n > t.Frequent.N) {
				t.Frequent = &frequentFault{Real: row, Rehearsed: col, N: n}
			}
		}
		m.Cells = append(m.Cells, cells)
	}
	if t.Frequent != nil {
		for _, n := range t.Tool.Matrix[t.Frequent.Real] {
			t.Frequent.Of += n
		}
	}
	if len(labels) > 0 {
		t.Matrix = m
	}
}

func isErrorLabel(label string) bool {
	return label != string(audit.OK) && label != string(audit.OKEmpty)
}

// ledgerLabel is an outcome as lists of calls have it.
func ledgerLabel(label string) string {
	if isErrorLabel(label) {
		return string(audit.Failed) + ":" + label
	}
	return label
}

func (s *site) toolFrequent(ctx context.Context, r *request, t *toolView) error {
	if t.Frequent == nil {
		return nil
	}
	lines, _, err := s.Store.Calls(ctx, r.Run, audit.CallFilter{
		Tool: r.Tool, Slice: r.slice(), Real: ledgerLabel(t.Frequent.Real), Rehearsed: ledgerLabel(t.Frequent.Rehearsed), Masked: new(false),
	}, audit.Page{Limit: 1})
	if err == nil && len(lines) > 0 {
		t.Frequent.Example = &lines[0]
	}
	return err
}

// toolSplits sets the tool's slices side by side: task outcomes, versions, modes.
func (s *site) toolSplits(ctx context.Context, r *request, t *toolView) error {
	all, err := s.Store.ToolFigures(ctx, r.Run, t.Tool.Environment, r.Tool)
	if err != nil {
		return err
	}
	find := func(version string, mode audit.Mode, split audit.Split) *audit.Figures {
		for i := range all {
			if f := &all[i]; f.Version == version && f.Mode == mode && f.Split == split {
				return f
			}
		}
		return nil
	}
	add := func(name string, f filter) {
		sl := f.slice()
		figures := find(sl.Version, sl.Mode, sl.Split)
		if figures == nil || figures.Scored == 0 {
			return
		}
		l := newToolLine(*figures)
		t.Splits = append(t.Splits, splitLine{Name: name, Href: f.URL("/tool"), Faithful: l.Faithful, FSR: l.FSR, LeafF1: l.LeafF1, Scored: l.Scored})
	}
	for _, c := range r.choices("split", &t.Summary) {
		add(c.Name, r.With("split", c.Value))
	}
	if len(t.Summary.Versions) > 1 {
		for _, v := range t.Summary.Versions {
			add("version "+v, r.With("version", v))
		}
	}
	if len(t.Summary.Modes) > 1 {
		for _, m := range t.Summary.Modes {
			add("mode "+string(m), r.With("mode", string(m)))
		}
	}
	return nil
}

// toolFields reads how the tool's answers differ, and hangs it on a tree.
func (s *site) toolFields(ctx context.Context, r *request, t *toolView) error {
	fields, err := s.Store.Fields(ctx, r.Run, r.Tool, r.slice())
	if err != nil {
		return err
	}
	root := &fieldNode{}
	for _, f := range fields { // the most frequent first
		if t.Field == nil && f.Part != "outcome" && f.Severity >= audit.S2 {
			t.Field = &f
		}
		switch f.Part {
		case "outcome":
			t.Outcomes = append(t.Outcomes, f)
		case "effect":
			t.Effects = append(t.Effects, f)
		default:
			root.hang(f)
		}
	}
	root.sum()
	t.Tree = root.Children
	return nil
}

// hang puts a field where its pattern says.
func (n *fieldNode) hang(f audit.Field) {
	at := n
	if f.Pattern != "" {
		for name := range strings.SplitSeq(strings.TrimPrefix(f.Pattern, "/"), "/") {
			i := slices.IndexFunc(at.Children, func(c *fieldNode) bool { return c.Name == name })
			if i < 0 {
				at.Children = append(at.Children, &fieldNode{Name: name, Pattern: at.Pattern + "/" + name})
				i = len(at.Children) - 1
			}
			at = at.Children[i]
		}
	}
	at.Fields = append(at.Fields, f)
}

// sum counts below each place and sorts by it, most first.
func (n *fieldNode) sum() {
	for _, f := range n.Fields {
		n.Pairs += f.Pairs
	}
	for _, c := range n.Children {
		c.sum()
		n.Pairs += c.Pairs
	}
	slices.SortStableFunc(n.Children, func(a, b *fieldNode) int { return b.Pairs - a.Pairs })
}
