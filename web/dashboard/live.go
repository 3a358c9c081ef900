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
	// livePeriod is how often the service looks whether a watched run moved.
	livePeriod = time.Second
	// beatPeriod keeps proxies from closing a stream that has nothing to say.
	beatPeriod = 15 * time.Second
	// guardPeriod is how long a stream outlives its token at most.
	guardPeriod = 5 * time.Second
	// sendTimeout is how long a browser may not read before its stream ends.
	sendTimeout = 10 * time.Second
)

// events tells a browser where a run is and that it moved (?run=), as server-sent
// events. What it moved to is on the page, which the script reads again.
func (s *site) events(c *gin.Context) {
	run := c.Query("run")
	at, err := s.watches.join(c.Request.Context(), run)
	if err != nil {
		s.fail(c, err)
		return
	}
	defer s.watches.leave(run, at)
	if s.Viewer != nil {
		defer s.Viewer()()
	}
	h := c.Writer.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(c.Writer)
	s.stream(c, at, func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendTimeout)) // of this event: a stream has no end
		if _, err := c.Writer.WriteString(text); err != nil {
			return false
		}
		return control.Flush() == nil
	})
	_ = control.SetWriteDeadline(time.Now().Add(sendTimeout)) // the end must be sent too
}

// stream sends what a watch sees until one of the two has enough. A run that
// cannot be read ends it: the browser comes back and is told.
func (s *site) stream(c *gin.Context, at *watch, send func(text string) bool) {
	guard, beat := time.NewTicker(guardPeriod), time.NewTicker(beatPeriod)
	defer guard.Stop()
	defer beat.Stop()
	last, _, err := s.watches.now(at)
	if err != nil || !send("retry: 3000\nevent: seen\ndata: "+last.seen()+"\n\n") {
		return
	}
	for {
		state, moved, err := s.watches.now(at)
		if err != nil {
			return
		}
		if state != last {
			last = state
			if !send(fmt.Sprintf("event: moved\ndata: %d\n\n", state.moves)) {
				return
			}
		}
		select {
		case <-c.Request.Context().Done():
			return
		case <-s.Closing:
			return
		case <-moved:
		case <-beat.C:
			if !send(": still here\n\n") {
				return
			}
		case <-guard.C:
			if !s.Guard.Still(c.Request, audit.ReaderRole) {
				return
			}
		}
	}
}

// seen is the state as pages and streams name it: a page whose stream begins
// elsewhere was written before the run moved there, and is read again.
func (l liveState) seen() string { return seenRun(l.moves, l.state) + seenFigures(l.computed) }

func seenRun(moves int64, state audit.RunState) string { return fmt.Sprintf("%d-%s-", moves, state) }

func seenFigures(computed time.Time) string {
	if computed.IsZero() {
		return "never"
	}
	return computed.UTC().Format(time.RFC3339Nano)
}

func (s *site) liveState(ctx context.Context, run string) (liveState, error) {
	head, err := s.Store.RunHead(ctx, run)
	if err != nil {
		return liveState{}, err
	}
	computed, err := s.Store.Computed(ctx, run)
	return liveState{head.Moves, head.State, computed}, err
}
