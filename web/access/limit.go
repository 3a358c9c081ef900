package access

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"understudy/audit"
)

// Limits bound how fast somebody may ask. The zero value bounds nothing.
type Limits struct {
	// Requests is how many requests a second one token may make, in bursts of
	// twice as many; 0 = unbounded. This machine, while it is let in without a
	// token, is not bounded.
	Requests int
	// Failures is how many wrong tokens a minute may come from one address, and
	// how often one wrong token may be tried from anywhere; 0 = unbounded.
	Failures int
	// Proxied says that a proxy of ours passes requests on: the visitor's address is
	// the last one in X-Forwarded-For, which that proxy wrote. Otherwise the header
	// is anybody's to forge and is not read.
	Proxied bool
}

// maxBuckets bounds what is remembered of visitors. Newcomers share one bucket
// while it is full, so that a flood of addresses cannot buy itself room.
const maxBuckets = 20_000

// buckets are token buckets by name.
type buckets struct {
	rate  rate.Limit // a second
	burst int

	mu   sync.Mutex
	each map[string]*rate.Limiter
}

// overflow is the bucket of those that there is no room for.
const overflow = ""

func (b *buckets) bucket(name string, now time.Time) *rate.Limiter {
	if l := b.each[name]; l != nil {
		return l
	}
	if len(b.each) >= maxBuckets {
		for other, l := range b.each { // a full bucket remembers nothing
			if l.TokensAt(now) >= float64(b.burst) {
				delete(b.each, other)
			}
		}
	}
	if len(b.each) >= maxBuckets {
		name = overflow
		if l := b.each[name]; l != nil {
			return l
		}
	}
	if b.each == nil {
		b.each = map[string]*rate.Limiter{}
	}
	l := rate.NewLimiter(b.rate, b.burst)
	b.each[name] = l
	return l
}

// take takes one from a bucket; an empty one says how long it stays so.
func (b *buckets) take(name string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.bucket(name, now)
	if l.AllowN(now, 1) {
		return 0
	}
	return b.wait(l, now)
}

// empty reports how long a bucket stays empty, without taking from it. A name
// without a bucket is not empty, newcomers without room for one among them.
func (b *buckets) empty(name string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.each[name]
	if l == nil || l.TokensAt(now) >= 1 {
		return 0
	}
	return b.wait(l, now)
}

func (b *buckets) wait(l *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - l.TokensAt(now)
	return max(time.Duration(missing/float64(b.rate)*float64(time.Second)), time.Millisecond)
}

// limiter is a Guard's memory of who asks how fast.
type limiter struct {
	requests buckets // by token
	failures buckets // by address and by wrong token

	mu   sync.Mutex
	good map[audit.Digest]time.Time // tokens that were right, and when: no more than there are
}

func newLimiter(l Limits) *limiter {
	return &limiter{
		requests: buckets{rate: rate.Limit(l.Requests), burst: 2 * l.Requests},
		failures: buckets{rate: rate.Limit(float64(l.Failures) / time.Minute.Seconds()), burst: l.Failures},
		good:     map[audit.Digest]time.Time{},
	}
}

// goodFor is how long a token that was right stays apart from guesses: programs
// behind an address from which somebody guesses go on working.
const goodFor = 10 * time.Minute

func (l *limiter) isGood(hash audit.Digest, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.good[hash] = now
}

func (l *limiter) wasGood(hash audit.Digest, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.good[hash]
	if ok && now.Sub(at) > goodFor {
		delete(l.good, hash)
		return false
	}
	return ok
}

// guessing refuses a secret before it is looked up, when too many wrong ones came
// from its address, or it was wrong too often itself.
func (g *Guard) guessing(r *http.Request, hash audit.Digest) error {
	if g.Limits.Failures <= 0 {
		return nil
	}
	now, memory := g.now(), g.memory()
	wait := memory.failures.empty("token "+hash.String(), now)
	if !memory.wasGood(hash, now) {
		wait = max(wait, memory.failures.empty("address "+g.address(r), now))
	}
	if wait == 0 {
		return nil
	}
	return &BusyError{Wait: wait, Err: &audit.Error{
		Code: audit.CodeBusy, Message: "too many wrong tokens", Hint: fmt.Sprintf("try again in %d s, with the right token", seconds(wait)),
	}}
}

// guessed notes how a secret turned out.
func (g *Guard) guessed(r *http.Request, hash audit.Digest, err error) {
	if g.Limits.Failures <= 0 {
		return
	}
	now, memory := g.now(), g.memory()
	switch {
	case err == nil:
		memory.isGood(hash, now)
	case audit.ErrorCode(err) == audit.CodeUnauthorized:
		memory.failures.take("address "+g.address(r), now)
		memory.failures.take("token "+hash.String(), now)
	}
}

// Limit ends requests of a token that asks too fast, through fail. It stands
// after Identify.
func (g *Guard) Limit(fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		id := Of(c)
		if g.Limits.Requests <= 0 || id.Token == 0 {
			return
		}
		if wait := g.memory().requests.take(strconv.Itoa(id.Token), g.now()); wait > 0 {
			fail(c, &BusyError{Wait: wait, Err: &audit.Error{
				Code: audit.CodeBusy, Message: fmt.Sprintf("%s asks more than %d times a second", id.Name, g.Limits.Requests),
				Hint: "send larger batches, wait as Retry-After says, or raise --request-rate",
			}})
		}
	}
}

// BusyError says how long to wait.
type BusyError struct {
	Wait time.Duration
	Err  error
}

// Error is the cause's text.
func (e *BusyError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BusyError) Unwrap() error { return e.Err }

// RetryAfter tells the asker how long to wait, where an error says so.
func RetryAfter(c *gin.Context, err error) {
	if busy, ok := errors.AsType[*BusyError](err); ok {
		c.Header("Retry-After", strconv.Itoa(seconds(busy.Wait)))
	}
}

func seconds(d time.Duration) int { return max(int(math.Ceil(d.Seconds())), 1) }

func (g *Guard) memory() *limiter {
	g.once.Do(func() { g.limiter = newLimiter(g.Limits) })
	return g.limiter
}

// address is who asks: a network for IPv6, where a visitor has 2⁶⁴ addresses.
func (g *Guard) address(r *http.Request) string {
	text, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		text = r.RemoteAddr
	}
	if hops := r.Header.Values("X-Forwarded-For"); g.Limits.Proxied && len(hops) > 0 {
		last := hops[len(hops)-1]
		text = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return "unknown"
	}
	if ip = ip.Unmap(); ip.Is6() {
		const network = 64
		prefix, _ := ip.WithZone("").Prefix(network) // 64 fits
		return prefix.String()
	}
	return ip.String()
}
