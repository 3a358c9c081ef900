package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"understudy/envace/private"
)

// The picture's size, in pixels.
const (
	svgWidth, svgHeight = 640, 400
	svgLeft, svgTop     = 64, 48
	svgRight, svgBottom = 24, 56
)

// frontier draws success against tokens a task: what rehearsal costs and brings. A
// bar is the 95 % interval; each mode is a line from the unrehearsed execution on.
func frontier(cells []cell, title string) []byte {
	most := 1.0
	for i := range cells {
		most = max(most, 1.1*cells[i].mean(cells[i].tokens))
	}
	x := func(tokens float64) float64 { return svgLeft + tokens/most*(svgWidth-svgLeft-svgRight) }
	y := func(share float64) float64 { return svgTop + (1-share)*(svgHeight-svgTop-svgBottom) }
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><text x="%d" y="24" font-size="15">Private rehearsal: %s</text>`+"\n", svgWidth, svgHeight, svgLeft, html.EscapeString(title))
	for share := 0.0; share <= 1.001; share += 0.25 {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f %%</text>`+"\n",
			svgLeft, svgWidth-svgRight, y(share), y(share), svgLeft-8, y(share)+4, 100*share)
	}
	for i := range 5 {
		tokens := most * float64(i) / 4
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`+"\n", x(tokens), svgHeight-svgBottom+18, tokens)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">tokens a task, attempts and execution</text>`+"\n", svgWidth/2, svgHeight-14)
	colours := map[private.Mode]string{private.Parallel: "#0b6e99", private.Sequential: "#b3541e"}
	for n, mode := range []private.Mode{private.Parallel, private.Sequential} {
		var points strings.Builder
		for i := range cells {
			c := &cells[i]
			if c.mode != mode && c.attempts > 1 {
				continue
			}
			at, e := x(c.mean(c.tokens)), c.success()
			fmt.Fprintf(&points, "%.1f,%.1f ", at, y(e.Value))
			if c.mode == mode {
				fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s"/><circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %.1f %%, %.0f tokens, first token after %s</title></circle><text x="%.1f" y="%.1f">%d</text>`+"\n",
					at, at, y(e.Lo), y(e.Hi), colours[mode], at, y(e.Value), colours[mode], c.name(), 100*e.Value, c.mean(c.tokens), c.latency().Round(0), at+7, y(e.Value)-6, c.attempts)
			}
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/><text x="%d" y="%d" fill="%s">%s</text>`+"\n",
			points.String(), colours[mode], svgWidth-svgRight-170+90*n, 42, colours[mode], mode)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
