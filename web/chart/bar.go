package chart

import (
	"math"
	"strconv"
)

// Part is one part of a stacked bar. Class is its colour, such as "s0".
type Part struct {
	Name, Class string
	N           int
}

// Ladder draws counts as one stacked bar.
type Ladder struct {
	Title string
	Parts []Part
}

const ladderWidth, ladderHeight = 180., 14.

type ladderDrawing struct {
	Title, Desc string
	W, H        float64
	Parts       []piece
}

type piece struct {
	X, W        float64
	Class, Text string
}

func (l Ladder) shape() (string, any) {
	total := 0
	for _, p := range l.Parts {
		total += p.N
	}
	d := ladderDrawing{Title: l.Title, W: ladderWidth, H: ladderHeight}
	at := 0.
	for _, p := range l.Parts {
		if p.N == 0 {
			continue
		}
		share := float64(p.N) / float64(total)
		// What happened once stays visible among a million.
		width := max(1.5, share*ladderWidth)
		d.Parts = append(d.Parts, piece{X: at, W: width, Class: p.Class, Text: p.Name + ": " + strconv.Itoa(p.N) + " (" + Percent(share) + ")"})
		at += width
	}
	for i := range d.Parts { // the minimum widths must not run over
		d.Parts[i].X *= ladderWidth / at
		d.Parts[i].W *= ladderWidth / at
		if i > 0 {
			d.Desc += ", "
		}
		d.Desc += d.Parts[i].Text
	}
	return "ladder", d
}

// Twin is one row a part.
func (l Ladder) Twin() Table {
	t := Table{Caption: l.Title, Head: []string{"part", "n"}}
	for _, p := range l.Parts {
		t.Rows = append(t.Rows, []string{p.Name, strconv.Itoa(p.N)})
	}
	return t
}

// Spark draws shares over time the size of a word.
type Spark struct {
	Title  string
	Values []float64 // in [0,1]; NaN = a gap
	Class  string
}

const sparkWidth, sparkHeight = 84., 20.

type sparkDrawing struct {
	Title, Desc, Path, Class string
	W, H, X, Y               float64
}

func (s Spark) shape() (string, any) {
	d := sparkDrawing{Title: s.Title, Class: s.Class, W: sparkWidth, H: sparkHeight}
	low, high := 1., 0.
	for _, v := range s.Values {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if room := (.1 - (high - low)) / 2; room > 0 { // a tenth of a point is no mountain
		low, high = low-room, high+room
	}
	y := scale{low, high, sparkHeight - 3, 3}
	x := scale{0, float64(max(len(s.Values)-1, 1)), 3, sparkWidth - 4}
	last := math.NaN()
	for i, v := range s.Values {
		if math.IsNaN(v) {
			continue
		}
		d.X, d.Y = x.at(float64(i)), y.at(v)
		if d.Path == "" {
			d.Path = "M" + px(d.X) + " " + px(d.Y)
			d.Desc = Percent(v)
		} else {
			d.Path += "L" + px(d.X) + " " + px(d.Y)
		}
		last = v
	}
	d.Desc = "from " + d.Desc + " to " + Percent(last)
	return "spark", d
}

// Twin is one row a value.
func (s Spark) Twin() Table {
	t := Table{Caption: s.Title, Head: []string{"place", "value"}}
	for i, v := range s.Values {
		t.Rows = append(t.Rows, []string{strconv.Itoa(i + 1), Percent(v)})
	}
	return t
}

// Interval draws one share between its bounds, with a limit where there is one.
type Interval struct {
	Title         string
	Value, Lo, Hi float64
	Limit         *float64
	Class         string
}

const intervalWidth, intervalHeight = 120., 14.

type intervalDrawing struct {
	Title, Desc, Class      string
	W, H, X, Lo, Wide, Stop float64
	Limited                 bool
}

func (i Interval) shape() (string, any) {
	s := scale{0, 1, 2, intervalWidth - 2}
	lo, hi := max(0, i.Lo), min(1, i.Hi)
	d := intervalDrawing{
		Title: i.Title, Desc: Percent(i.Value) + " [" + Percent(lo) + ", " + Percent(hi) + "]", Class: i.Class,
		W: intervalWidth, H: intervalHeight, X: s.at(i.Value), Lo: s.at(lo), Wide: max(1, s.at(hi)-s.at(lo)),
	}
	if i.Limit != nil {
		d.Limited, d.Stop = true, s.at(*i.Limit)
		d.Desc += ", limit " + Percent(*i.Limit)
	}
	return "interval", d
}

// Twin is one row.
func (i Interval) Twin() Table {
	return Table{Caption: i.Title, Head: []string{"value", "low", "high"}, Rows: [][]string{{Percent(i.Value), Percent(i.Lo), Percent(i.Hi)}}}
}

// Strip draws many shares as one row of shades: the paler, the surer.
type Strip struct {
	Title  string
	Values []float64 // in [0,1]
}

const stripWidth, stripHeight, maxStrip = 640., 18., 320

func (s Strip) shape() (string, any) {
	d := ladderDrawing{Title: s.Title, W: stripWidth, H: stripHeight}
	values := s.Values[:min(len(s.Values), maxStrip)]
	width := min(12, stripWidth/float64(max(len(values), 1)))
	for i, v := range values {
		class := "p4"
		for j, limit := range []float64{.99, .9, .5, .1} {
			if v >= limit {
				class = "p" + strconv.Itoa(j)
				break
			}
		}
		d.Parts = append(d.Parts, piece{X: float64(i) * width, W: max(.8, width-.5), Class: class, Text: "token " + strconv.Itoa(i+1) + ": " + Percent(v)})
	}
	d.Desc = strconv.Itoa(len(s.Values)) + " values"
	return "strip", d
}

// Twin is one row a value.
func (s Strip) Twin() Table {
	t := Table{Caption: s.Title, Head: []string{"token", "probability"}}
	for i, v := range s.Values[:min(len(s.Values), maxStrip)] {
		t.Rows = append(t.Rows, []string{strconv.Itoa(i + 1), Percent(v)})
	}
	return t
}
