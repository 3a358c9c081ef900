package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

const (
	// livePeriod is how often a stream looks whether its run moved.
	livePeriod = time.Second
	// beatPeriod keeps proxies from closing a stream that has nothing to say.
	beatPeriod = 15 * time.Second
	// guardPeriod is how long a stream outlives its token at most.
	guardPeriod = 5 * time.Second
)

// events tells a browser that a run moved (?run=), as server-sent events. What
// it moved to is on the page, which the script reads again.
func (s *site) events(c *gin.Context) {
	run := c.Query("run")
	ctx := c.Request.Context()
	head, err := s.liveState(ctx, run)
	if err != nil {
		s.fail(c, err)
		return
	}
	if s.Viewer != nil {
		defer s.Viewer()()
	}
	h := c.Writer.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(c.Writer)
	_ = control.SetWriteDeadline(time.Time{}) // a stream has no end
	send := func(text string) bool {
		if _, err := c.Writer.WriteString(text); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	if !send("retry: 3000\n\n") {
		return
	}
	tick := time.NewTicker(livePeriod)
	defer tick.Stop()
	last, quiet, unasked := head, time.Duration(0), time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Closing:
			return
		case <-tick.C:
		}
		if unasked += livePeriod; unasked >= guardPeriod {
			unasked = 0
			if !s.Guard.Still(c.Request, audit.ReaderRole) {
				return
			}
		}
		head, err := s.liveState(ctx, run)
		quiet += livePeriod
		switch {
		case err != nil:
			return // the browser comes back and is told
		case head != last:
			last, quiet = head, 0
			if !send(fmt.Sprintf("event: moved\ndata: %d\n\n", head.moves)) {
				return
			}
		case quiet >= beatPeriod:
			quiet = 0
			if !send(": still here\n\n") {
				return
			}
		}
	}
}

// liveState is what a page of a run depends on.
type liveState struct {
	moves    int64
	state    audit.RunState
	computed time.Time
}

func (s *site) liveState(ctx context.Context, run string) (liveState, error) {
	head, err := s.Store.RunHead(ctx, run)
	if err != nil {
		return liveState{}, err
	}
	computed, err := s.Store.Computed(ctx, run)
	return liveState{head.Moves, head.State, computed}, err
}
