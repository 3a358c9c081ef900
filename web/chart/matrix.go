package chart

import (
	"math"
	"strconv"
)

// Cell is one field of a Matrix.
type Cell struct {
	N    float64
	Href string // where a click goes; "" = nowhere
}

// Matrix draws counts of row outcomes against column outcomes: what lies on the
// diagonal agrees. Classes of rows that are errors and columns that are not make
// the fault that the caller calls Alarm stand out.
type Matrix struct {
	Title, Desc      string
	RowName, ColName string
	Rows, Cols       []string
	Cells            [][]Cell // by row, then column
	Alarm            func(row, col int) bool
	AlarmText        string // said in an alarming cell's tooltip
}

const matrixCell, matrixRowHeight, matrixLeft, matrixTop = 58., 30., 128., 104.

type matrixDrawing struct {
	Title, Desc, RowName, ColName string
	W, H, Left, Top               float64
	Rows, Cols                    []tick
	Cells                         []field
}

type field struct {
	X, Y, W, H, TX, TY float64
	Class, Count, Text string
	Href               string
}

func (m Matrix) shape() (string, any) {
	d := matrixDrawing{
		Title: m.Title, Desc: m.Desc, RowName: m.RowName, ColName: m.ColName, Left: matrixLeft, Top: matrixTop,
		W: matrixLeft + matrixCell*float64(len(m.Cols)) + 76, H: matrixTop + matrixRowHeight*float64(len(m.Rows)) + 8,
	}
	for i, name := range m.Rows {
		d.Rows = append(d.Rows, tick{matrixTop + matrixRowHeight*(float64(i)+.5), name})
	}
	for j, name := range m.Cols {
		d.Cols = append(d.Cols, tick{matrixLeft + matrixCell*(float64(j)+.5), name})
	}
	most := 0.
	for _, row := range m.Cells {
		for _, c := range row {
			most = max(most, c.N)
		}
	}
	for i, row := range m.Cells {
		for j, c := range row {
			d.Cells = append(d.Cells, m.field(i, j, c, most))
		}
	}
	return "matrix", d
}

func (m Matrix) field(i, j int, c Cell, most float64) field {
	f := field{
		X: matrixLeft + matrixCell*float64(j), Y: matrixTop + matrixRowHeight*float64(i),
		W: matrixCell - 2, H: matrixRowHeight - 2, Class: "cell0", Href: c.Href,
		Text: m.RowName + " " + m.Rows[i] + ", " + m.ColName + " " + m.Cols[j] + ": " + count(c.N),
	}
	f.TX, f.TY = f.X+f.W/2, f.Y+f.H/2
	if c.N <= 0 {
		f.Href = ""
		return f
	}
	f.Count = count(c.N)
	shade := strconv.Itoa(1 + int(3.99*math.Log1p(c.N)/math.Log1p(most)))
	switch {
	case m.Rows[i] == m.Cols[j]:
		f.Class = "agree" + shade
	case m.Alarm != nil && m.Alarm(i, j):
		f.Class = "alarm" + shade
		f.Text += " (" + m.AlarmText + ")"
	default:
		f.Class = "differ" + shade
	}
	return f
}

// count writes a count that may be weighted.
func count(n float64) string {
	switch {
	case n >= 1e6:
		return strconv.FormatFloat(n/1e6, 'f', 1, 64) + "M"
	case n >= 1e4:
		return strconv.FormatFloat(n/1e3, 'f', 0, 64) + "k"
	case n == math.Trunc(n):
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// Twin is the matrix itself.
func (m Matrix) Twin() Table {
	t := Table{Caption: m.Title, Head: append([]string{m.RowName + " \\ " + m.ColName}, m.Cols...)}
	for i, name := range m.Rows {
		row := []string{name}
		for _, c := range m.Cells[i] {
			row = append(row, count(c.N))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Bin is one bin of a Reliability diagram.
type Bin struct {
	Stated        float64 // mean confidence
	Right, Lo, Hi float64 // how often it was right
	N             int
}

// Reliability draws stated confidence against how often it was right.
type Reliability struct {
	Title, Desc string
	Bins        []Bin
}

const reliabilitySize, reliabilityLeft, reliabilityBottom = 260., 44., 36.

type reliabilityDrawing struct {
	Title, Desc              string
	W, H                     float64
	Left, Right, Top, Bottom float64
	Ticks, YTicks            []tick
	Marks                    []mark
	Bars                     []field
}

func (r Reliability) shape() (string, any) {
	d := reliabilityDrawing{
		Title: r.Title, Desc: r.Desc, W: reliabilitySize + reliabilityLeft + 12, H: reliabilitySize + reliabilityBottom + 12,
		Left: reliabilityLeft, Right: reliabilityLeft + reliabilitySize, Top: 12, Bottom: 12 + reliabilitySize,
	}
	x, y := scale{0, 1, d.Left, d.Right}, scale{0, 1, d.Bottom, d.Top}
	for i := range 5 {
		v := float64(i) / 4
		d.Ticks = append(d.Ticks, tick{x.at(v), Number(v)})
		d.YTicks = append(d.YTicks, tick{y.at(v), Number(v)})
	}
	most := 1
	for _, b := range r.Bins {
		most = max(most, b.N)
	}
	for _, b := range r.Bins {
		if b.N == 0 {
			continue
		}
		text := "stated " + Percent(b.Stated) + ", right " + Percent(b.Right) + " [" + Percent(b.Lo) + ", " + Percent(b.Hi) + "], n=" + strconv.Itoa(b.N)
		d.Marks = append(d.Marks, mark{X: x.at(b.Stated), Y: y.at(b.Right), Lo: y.at(b.Lo), Hi: y.at(b.Hi), Bound: true, Text: text})
		height := 40 * float64(b.N) / float64(most)
		d.Bars = append(d.Bars, field{X: x.at(b.Stated) - 4, Y: d.Bottom - height, W: 8, H: height})
	}
	return "reliability", d
}

// Twin is one row a bin.
func (r Reliability) Twin() Table {
	t := Table{Caption: r.Title, Head: []string{"stated", "right", "low", "high", "n"}}
	for _, b := range r.Bins {
		t.Rows = append(t.Rows, []string{Percent(b.Stated), Percent(b.Right), Percent(b.Lo), Percent(b.Hi), strconv.Itoa(b.N)})
	}
	return t
}
