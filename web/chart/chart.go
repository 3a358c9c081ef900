// Package chart draws the dashboard's figures as SVG, by template: no script,
// no inline style (a page's policy forbids both), colours by class, so that one
// style sheet serves light, dark and paper. Every chart has a title, a
// description and the same numbers as a table.
//
//	Line         values over steps or checkpoints, with bands; straight or in steps
//	Ladder       one stacked bar of counts
//	Spark        a trend the size of a word
//	Matrix       counts of two outcomes against each other
//	Reliability  how often a stated confidence is right
//	Interval     one value between its bounds, with a limit
//
// It knows no domain word: texts come from the caller and are escaped here.
package chart

import (
	"bytes"
	_ "embed" // the templates
	"fmt"
	"html/template"
	"math"
	"strconv"
)

// Chart is something that a Set can draw.
type Chart interface {
	// shape is the template's name and what it draws, in pixels.
	shape() (name string, drawing any)
	// Twin is the same as a table, for those who cannot see the drawing.
	Twin() Table
}

// Table is a chart's numbers.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
}

//go:embed chart.html
var source string

// Set draws charts. It is safe for concurrent use.
type Set struct{ templates *template.Template }

// New reads the templates.
func New() (*Set, error) {
	t, err := template.New("chart").Funcs(template.FuncMap{"px": px}).Parse(source)
	if err != nil {
		return nil, fmt.Errorf("read the charts' templates: %w", err)
	}
	return &Set{templates: t}, nil
}

// Draw returns the SVG element. Equal charts give equal bytes.
func (s *Set) Draw(c Chart) (template.HTML, error) {
	name, drawing := c.shape()
	var b bytes.Buffer
	if err := s.templates.ExecuteTemplate(&b, name, drawing); err != nil {
		return "", fmt.Errorf("draw a %s: %w", name, err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // html/template escaped it
}

// px writes a coordinate with at most one decimal, so that drawings are small
// and equal everywhere.
func px(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		x = 0
	}
	return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64)
}

// Percent writes a share as people read it; all and none are never rounded to.
func Percent(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	text := strconv.FormatFloat(100*x, 'f', 1, 64)
	switch {
	case x < 1 && text == "100.0":
		return ">99.9 %"
	case x > 0 && text == "0.0":
		return "<0.1 %"
	}
	return text + " %"
}

// Number writes a value with up to three decimals.
func Number(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return strconv.FormatFloat(math.Round(1000*x)/1000, 'f', -1, 64)
}
