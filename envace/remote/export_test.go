package remote

import "time"

// SetClock has a policy read the time elsewhere.
func (p *Policy) SetClock(now func() time.Time) { p.breaker.now = now }
