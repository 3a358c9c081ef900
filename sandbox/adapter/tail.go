package adapter

import (
	"bytes"
	"sync"
)

// Tail is an io.Writer that keeps the last words of a server's stderr, for the
// error that says why it died. It is safe for concurrent use.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 2000

// Write implements io.Writer.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if extra := len(t.buf) - tailBytes; extra > 0 {
		t.buf = t.buf[extra:]
	}
	return len(b), nil
}

// String is those words, without space around them.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
