package remote

import (
	"sync"
	"time"
)

// A server that failed this often in a row is left alone for a while, so that
// an outage costs the audit masked pairs and not hours of waiting.
const (
	breakAfter = 5
	breakFor   = 10 * time.Second
)

// breaker counts failures in a row.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	failures int
	until    time.Time
}

// open says for how long nobody should ask; 0 = ask.
func (b *breaker) open() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.until.Sub(b.now()), 0)
}

func (b *breaker) failure() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures++; b.failures >= breakAfter {
		b.until = b.now().Add(breakFor)
	}
}

func (b *breaker) success() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.until = 0, time.Time{}
}
