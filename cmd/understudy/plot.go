package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// plot is one pair of axes in an SVG picture.
type plot struct {
	left, top, width, height float64    // of the axes' area, in pixels
	x, y                     [2]float64 // the values at its ends
}

// at is where a point lies in the picture.
func (p plot) at(x, y float64) (float64, float64) {
	return p.left + (x-p.x[0])/(p.x[1]-p.x[0])*p.width, p.top + p.height - (y-p.y[0])/(p.y[1]-p.y[0])*p.height
}

// axes draws the title, a line for each of five values of y, and five values of x.
func (p plot) axes(b *bytes.Buffer, title, below string, y, x func(float64) string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="14">%s</text>`+"\n", p.left, p.top-12, html.EscapeString(title))
	for i := range 5 {
		part := float64(i) / 4
		value := p.y[0] + part*(p.y[1]-p.y[0])
		_, at := p.at(p.x[0], value)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			p.left, p.left+p.width, at, at, p.left-8, at+4, y(value))
		value = p.x[0] + part*(p.x[1]-p.x[0])
		right, _ := p.at(value, p.y[0])
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", right, p.top+p.height+18, x(value))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", p.left+p.width/2, p.top+p.height+36, html.EscapeString(below))
}

// line joins points; one without a value breaks it.
func (p plot) line(b *bytes.Buffer, points [][2]float64, colour string, width float64, title string) {
	var path strings.Builder
	command := "M"
	for _, point := range points {
		if math.IsNaN(point[1]) {
			command = "M"
			continue
		}
		x, y := p.at(point[0], point[1])
		fmt.Fprintf(&path, "%s%.1f %.1f", command, x, y)
		command = "L"
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="%.1f"><title>%s</title></path>`+"\n", path.String(), colour, width, html.EscapeString(title))
}

// picture is an SVG file of a size.
func picture(width, height float64, body func(b *bytes.Buffer)) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", width, height)
	body(&b)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func shortNumber(x float64) string  { return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64) }
func shortPercent(x float64) string { return shortNumber(100*x) + " %" }
