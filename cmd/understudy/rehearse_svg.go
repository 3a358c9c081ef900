package main

import (
	"bytes"
	"fmt"

	"understudy/envace/private"
)

// frontier draws success against tokens a task: what rehearsal costs and brings. A
// bar is the 95 % interval; each mode is a line from the unrehearsed execution on.
func frontier(cells []cell, title string) []byte {
	most := 1.0
	for i := range cells {
		most = max(most, 1.1*cells[i].mean(cells[i].tokens))
	}
	p := plot{left: 64, top: 48, width: 552, height: 296, x: [2]float64{0, most}, y: [2]float64{0, 1}}
	colours := map[private.Mode]string{private.Parallel: "#0b6e99", private.Sequential: "#b3541e"}
	return picture(640, 400, func(b *bytes.Buffer) {
		p.axes(b, "Private rehearsal: "+title, "tokens a task, attempts and execution", shortPercent, shortNumber)
		for n, mode := range []private.Mode{private.Parallel, private.Sequential} {
			var points [][2]float64
			for i := range cells {
				c := &cells[i]
				if c.mode != mode && c.attempts > 1 {
					continue
				}
				points = append(points, [2]float64{c.mean(c.tokens), c.success().Value})
				if c.mode == mode {
					p.cell(b, c, colours[mode])
				}
			}
			p.line(b, points, colours[mode], 1.5, string(mode))
			fmt.Fprintf(b, `<text x="%d" y="42" fill="%s">%s</text>`+"\n", 446+90*n, colours[mode], mode)
		}
	})
}

// cell draws one cell of the sweep, with its interval and its number of attempts.
func (p plot) cell(b *bytes.Buffer, c *cell, colour string) {
	e := c.success()
	x, y := p.at(c.mean(c.tokens), e.Value)
	_, lo := p.at(0, e.Lo)
	_, hi := p.at(0, e.Hi)
	fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s"/><circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %.1f %%, %.0f tokens, first token after %s</title></circle><text x="%.1f" y="%.1f">%d</text>`+"\n",
		x, x, lo, hi, colour, x, y, colour, c.name(), 100*e.Value, c.mean(c.tokens), c.latency().Round(0), x+7, y-6, c.attempts)
}
