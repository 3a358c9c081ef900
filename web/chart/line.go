package chart

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Point is one value at one place of the x axis.
type Point struct {
	X      float64
	Label  string // of x, for people; "" = the number
	Y      float64
	Lo, Hi float64 // the band; equal to Y or infinite = none
	N      int
	Href   string // where a click on the point goes; "" = nowhere
}

// Series is one line. Class is its colour: "c1" to "c6".
type Series struct {
	Name     string
	Class    string
	Points   []Point
	Quiet    bool // no marks: for lines of many points
	Unlisted bool // not in the legend: another line of that name is
}

// Line draws values over steps or checkpoints.
type Line struct {
	Title, Desc string
	XName       string
	Percent     bool    // y is a share: the axis is 0 to 100 %
	Min, Max    float64 // of y; both 0 = 0 to 1 when Percent, else from the data
	Stairs      bool    // a value holds until the next one (survival)
	Wide        bool
	Series      []Series
}

// The plot area within the view box.
const (
	lineLeft, lineTop       = 46., 14.
	lineRight, lineBottom   = 34., 34.
	lineHeight              = 220.
	lineWidth, lineWideness = 520., 860.
)

type tick struct {
	At   float64
	Text string
}

type mark struct {
	X, Y, Lo, Hi float64
	Bound        bool
	Text, Href   string
}

type stroke struct {
	Name, Class, Path, Band string
	Marks                   []mark
	LegendX                 float64
	Unlisted                bool
}

type lineDrawing struct {
	Title, Desc, XName       string
	W, H                     float64
	Left, Right, Top, Bottom float64
	XTicks, YTicks           []tick
	Strokes                  []stroke
}

func (l Line) shape() (string, any) {
	width := lineWidth
	if l.Wide {
		width = lineWideness
	}
	d := lineDrawing{
		Title: l.Title, Desc: l.Desc, XName: l.XName, W: width, H: lineHeight,
		Left: lineLeft, Right: width - lineRight, Top: lineTop, Bottom: lineHeight - lineBottom,
	}
	x, y := l.scales(&d)
	d.XTicks, d.YTicks = l.xTicks(x), l.yTicks(y)
	legend := d.Left
	for _, s := range l.Series {
		st := stroke{Name: s.Name, Class: s.Class, LegendX: legend, Unlisted: s.Unlisted}
		st.Path, st.Band = l.path(s.Points, x, y)
		for _, p := range s.Points {
			if math.IsNaN(p.Y) || s.Quiet {
				continue
			}
			st.Marks = append(st.Marks, mark{
				X: x.at(p.X), Y: y.at(p.Y), Lo: y.at(p.Lo), Hi: y.at(p.Hi), Bound: bounded(p), Href: p.Href,
				Text: s.Name + " " + l.label(p) + ": " + l.format(p.Y) + l.bounds(p) + ", n=" + strconv.Itoa(p.N),
			})
		}
		if s.Unlisted {
			d.Strokes = append(d.Strokes, st)
			continue
		}
		legend += 26 + 6.2*float64(len([]rune(s.Name)))
		d.Strokes = append(d.Strokes, st)
	}
	return "line", d
}

// Twin is one row a point.
func (l Line) Twin() Table {
	t := Table{Caption: l.Title, Head: []string{l.XName, "series", "value", "low", "high", "n"}}
	for _, s := range l.Series {
		for _, p := range s.told() {
			t.Rows = append(t.Rows, []string{l.label(p), s.Name, l.format(p.Y), l.format(p.Lo), l.format(p.Hi), strconv.Itoa(p.N)})
		}
	}
	return t
}

// told are the points that a table names: of a quiet series, a dozen.
func (s Series) told() []Point {
	const most = 12
	if !s.Quiet || len(s.Points) <= most {
		return s.Points
	}
	kept := make([]Point, 0, most)
	for i := range most {
		kept = append(kept, s.Points[i*(len(s.Points)-1)/(most-1)])
	}
	return kept
}

// scale maps values to pixels.
type scale struct{ from, to, low, high float64 }

func (s scale) at(v float64) float64 {
	if s.to == s.from {
		return (s.low + s.high) / 2
	}
	return s.low + (min(max(v, s.from), s.to)-s.from)/(s.to-s.from)*(s.high-s.low)
}

func (l Line) scales(d *lineDrawing) (x, y scale) {
	xMin, xMax, yMin, yMax := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range l.Series {
		for _, p := range s.Points {
			xMin, xMax = min(xMin, p.X), max(xMax, p.X)
			for _, v := range []float64{p.Y, p.Lo, p.Hi} {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					yMin, yMax = min(yMin, v), max(yMax, v)
				}
			}
		}
	}
	switch {
	case l.Min != 0 || l.Max != 0:
		yMin, yMax = l.Min, l.Max
	case l.Percent:
		yMin, yMax = 0, 1
	}
	if xMin > xMax {
		xMin, xMax = 0, 1
	}
	if yMin > yMax {
		yMin, yMax = 0, 1
	}
	if !l.Percent && l.Min == 0 && l.Max == 0 {
		yMin, yMax = nice(yMin, yMax)
	}
	return scale{xMin, xMax, d.Left + 8, d.Right - 8}, scale{yMin, yMax, d.Bottom, d.Top}
}

// nice widens an axis to round numbers at its four steps.
func nice(low, high float64) (from, to float64) {
	const steps = 4
	if high <= low {
		high = low + 1
	}
	unit := math.Pow(10, math.Floor(math.Log10((high-low)/steps)))
	for range 3 { // a wider step may need a wider one again
		for _, m := range []float64{1, 2, 2.5, 5, 10, 20} {
			step := m * unit
			from = math.Floor(low/step) * step
			if to = from + steps*step; to >= high {
				return from, to
			}
		}
		unit *= 10
	}
	return low, high
}

// path is the line and the band around it.
func (l Line) path(points []Point, x, y scale) (line, band string) {
	var path strings.Builder
	var upper, lower []string
	last, upperLast, lowerLast := 0., 0., 0.
	gap := true // the next point begins a stroke of its own
	for _, p := range points {
		if math.IsNaN(p.Y) {
			gap = true
			continue
		}
		at := px(x.at(p.X)) + " " + px(y.at(p.Y))
		switch {
		case gap:
			path.WriteString("M" + at)
		case l.Stairs:
			path.WriteString("L" + px(x.at(p.X)) + " " + px(last) + "L" + at)
		default:
			path.WriteString("L" + at)
		}
		last, gap = y.at(p.Y), false
		if bounded(p) {
			if l.Stairs && len(upper) > 0 {
				upper = append(upper, px(x.at(p.X))+" "+px(upperLast))
				lower = append(lower, px(x.at(p.X))+" "+px(lowerLast))
			}
			upperLast, lowerLast = y.at(p.Hi), y.at(p.Lo)
			upper = append(upper, px(x.at(p.X))+" "+px(y.at(p.Hi)))
			lower = append(lower, px(x.at(p.X))+" "+px(y.at(p.Lo)))
		}
	}
	if len(upper) < 2 {
		return path.String(), ""
	}
	for _, at := range slices.Backward(lower) {
		upper = append(upper, at)
	}
	return path.String(), "M" + strings.Join(upper, "L") + "Z"
}

func bounded(p Point) bool {
	return !math.IsNaN(p.Lo) && !math.IsNaN(p.Hi) && !math.IsInf(p.Lo, 0) && !math.IsInf(p.Hi, 0) && p.Lo < p.Hi
}

func (l Line) bounds(p Point) string {
	if !bounded(p) {
		return ""
	}
	return " [" + l.format(p.Lo) + ", " + l.format(p.Hi) + "]"
}

func (l Line) format(v float64) string {
	if l.Percent {
		return Percent(v)
	}
	return Number(v)
}

func (l Line) label(p Point) string {
	if p.Label != "" {
		return p.Label
	}
	return Number(p.X)
}

// xTicks names at most eight places.
func (l Line) xTicks(x scale) []tick {
	var ticks []tick
	seen := map[float64]bool{}
	for _, s := range l.Series {
		for _, p := range s.Points {
			if !seen[p.X] {
				seen[p.X] = true
				ticks = append(ticks, tick{x.at(p.X), l.label(p)})
			}
		}
	}
	const most = 8
	if len(ticks) <= most {
		return ticks
	}
	var kept []tick
	for i := range most {
		kept = append(kept, ticks[i*(len(ticks)-1)/(most-1)])
	}
	return kept
}

func (l Line) yTicks(y scale) []tick {
	var ticks []tick
	const steps = 4
	for i := range steps + 1 {
		v := y.from + (y.to-y.from)*float64(i)/steps
		text := Number(v)
		if l.Percent {
			text = strconv.FormatFloat(math.Round(1000*v)/10, 'f', -1, 64) + " %"
		}
		ticks = append(ticks, tick{y.at(v), text})
	}
	return ticks
}
