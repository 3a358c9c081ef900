package serve

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// stalled is how long a client may take no data: then it is gone, and its place in
// the queue is free.
const stalled = 30 * time.Second

// stream writes server-sent events. It is safe for concurrent use. Until the first
// event an error can still be an ordinary reply.
type stream struct {
	w     http.ResponseWriter
	mu    sync.Mutex
	begun bool
}

func (s *stream) send(event any) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	return s.write(data)
}

func (s *stream) write(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // a proxy must not hold events back
		s.w.WriteHeader(http.StatusOK)
	}
	controller := http.NewResponseController(s.w)
	// Not every writer has deadlines; those of a network do.
	_ = controller.SetWriteDeadline(time.Now().Add(stalled))
	defer func() { _ = controller.SetWriteDeadline(time.Time{}) }()
	if _, err := s.w.Write(slices.Concat([]byte("data: "), data, []byte("\n\n"))); err != nil {
		return err
	}
	return controller.Flush()
}

// end closes the stream. An error before the first event is returned, a later one
// is an event.
func (s *stream) end(err error) error {
	if err != nil && !s.begun {
		return err
	}
	if err != nil {
		_ = s.send(map[string]any{"error": asFault(err)}) // the client may be gone
	}
	_ = s.write([]byte("[DONE]"))
	return nil
}

// finish sends the usage, if it is asked for, and ends the stream.
func (s *server) finish(out *stream, j *job, withUsage bool, err error) error {
	if err == nil && withUsage {
		last := s.envelope(j, []any{})
		last["usage"] = j.usage
		err = out.send(last)
	}
	return out.end(err)
}
