package main

import (
	"fmt"
	"io"
	"time"
)

// progress shows how long work is coming along: rate, done of total, remaining
// time, on one line that is rewritten at most five times a second. It is silent
// where nobody watches. It is for one goroutine.
type progress struct {
	w       io.Writer // nil: silent
	what    string
	total   int
	now     func() time.Time
	started time.Time
	shown   time.Time
	done    int
}

// newProgress counts towards total; 0 when the total is not known.
func (inv *invocation) newProgress(what string, total int) *progress {
	p := &progress{what: what, total: total, now: time.Now}
	if inv.terminal {
		p.w = inv.stderr
	}
	p.started = p.now()
	return p
}

// add counts n more as done.
func (p *progress) add(n int) {
	p.done += n
	if p.w == nil || p.now().Sub(p.shown) < 200*time.Millisecond && p.done != p.total {
		return
	}
	p.shown = p.now()
	fmt.Fprintf(p.w, "\r\x1b[K%s", p.line())
}

// end leaves the last line standing.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprintf(p.w, "\r\x1b[K%s\n", p.line())
	}
}

func (p *progress) line() string {
	elapsed := p.now().Sub(p.started)
	rate := float64(p.done) / max(elapsed.Seconds(), 1e-9)
	if p.total == 0 {
		return fmt.Sprintf("%s: %d, %.0f/s", p.what, p.done, rate)
	}
	line := fmt.Sprintf("%s: %d/%d, %.0f/s", p.what, p.done, p.total, rate)
	if p.done > 0 && p.done < p.total {
		left := time.Duration(float64(elapsed) / float64(p.done) * float64(p.total-p.done))
		line += ", " + left.Round(time.Second).String() + " left"
	}
	return line
}
