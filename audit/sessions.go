package audit

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"

	"understudy/audit/diff"
)

// sessionCache keeps the sessions of ended episodes by where they stopped, so
// that an episode that goes on from there (a live rollout, one action a message)
// does not replay its prefix. A speed-up only: what is not there is replayed.
type sessionCache struct {
	shares atomic.Int64 // numbers shared states, so that two audits of one episode never meet

	mu    sync.Mutex
	max   int
	order *list.List // of *keptSession, least recently used first
	at    map[Digest]*list.Element
}

type keptSession struct {
	key     Digest
	session Session
	trail   Digest
	said    Digest
	history []Turn
	ids     *diff.Bijection
	forked  bool
}

func newSessionCache(limit int) *sessionCache {
	return &sessionCache{max: limit, order: list.New(), at: make(map[Digest]*list.Element)}
}

// take removes and returns the session that was kept under a key, or nil.
func (c *sessionCache) take(key Digest) *keptSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.at[key]
	if !ok {
		return nil
	}
	delete(c.at, key)
	return c.order.Remove(e).(*keptSession)
}

// put keeps a session and closes the one that it displaces.
func (c *sessionCache) put(kept *keptSession) {
	c.mu.Lock()
	displaced := make([]Session, 0, 2)
	if e, ok := c.at[kept.key]; ok {
		displaced = append(displaced, c.order.Remove(e).(*keptSession).session)
	}
	c.at[kept.key] = c.order.PushBack(kept)
	for c.order.Len() > c.max {
		oldest := c.order.Remove(c.order.Front()).(*keptSession)
		delete(c.at, oldest.key)
		displaced = append(displaced, oldest.session)
	}
	c.mu.Unlock()
	for _, s := range displaced {
		_ = s.Close() // it was only a speed-up
	}
}

// resume goes on from a kept session that stands as far as possible behind the
// actions that only lead to a later state.
func (at *Place) resume(steps []Planned) bool {
	if at.auditor.sessions.max <= 0 {
		return false
	}
	type stop struct{ trail, said Digest }
	stops := []stop{{}}
	for i := range steps {
		if !steps[i].replay || steps[i].mask != "" {
			break
		}
		last := stops[len(stops)-1]
		said := steps[i].samples[0].Rehearsal
		if said == nil {
			said = &Rehearsal{}
		}
		stops = append(stops, stop{extend(last.trail, steps[i].digest), say(last.said, steps[i].digest, said)})
	}
	for n := len(stops) - 1; n > 0; n-- {
		kept := at.auditor.sessions.take(at.cacheKey(stops[n].trail, stops[n].said))
		if kept == nil {
			continue
		}
		at.session, at.trail, at.said, at.history = kept.session, kept.trail, kept.said, kept.history
		at.ids, at.forked = kept.ids, kept.forked
		for i := range n {
			steps[i].done = true
		}
		return true
	}
	return false
}

// keep hands the session of an ended episode to the cache.
func (at *Place) keep() {
	if at.auditor.sessions.max <= 0 || at.session == nil || at.twin != nil || at.foreign != nil || at.mask != "" || !at.held {
		return
	}
	at.auditor.sessions.put(&keptSession{
		key: at.cacheKey(at.trail, at.said), session: at.session, trail: at.trail, said: at.said,
		history: at.history, ids: at.ids, forked: at.forked,
	})
	at.session = nil
}

// cacheKey names a place: environment, start, and what happened. In an open
// episode what was answered counts too, for it decides how ids are translated.
func (at *Place) cacheKey(trail, said Digest) Digest {
	b := append(make([]byte, 0, 4*len(trail)), at.info.Digest[:]...)
	b = append(b, at.initial[:]...)
	b = append(b, trail[:]...)
	if at.episode.Mode == Open {
		b = append(b, said[:]...)
	}
	return sha256.Sum256(b)
}

// say is the digest of what was said after one more call: its answer, and how it
// says that the state changed.
func say(said, call Digest, r *Rehearsal) Digest {
	return extend(extend(extend(said, call), sha256.Sum256(r.Raw)), sha256.Sum256(r.StateDelta))
}

func (c *sessionCache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for e := c.order.Front(); e != nil; e = e.Next() {
		errs = append(errs, e.Value.(*keptSession).session.Close())
	}
	c.order.Init()
	clear(c.at)
	return errors.Join(errs...)
}

// borrow returns a copy of the session that was kept under a key, by a fork that
// leaves it there; one that cannot fork is taken. nil when there is none.
func (c *sessionCache) borrow(ctx context.Context, key Digest) *keptSession {
	kept := c.take(key)
	if kept == nil {
		return nil
	}
	forker, ok := kept.session.(Forker)
	if !ok {
		return kept
	}
	fork, err := forker.Fork(ctx)
	if err != nil {
		return kept // it says that it cannot after all
	}
	copied := *kept
	copied.session = fork
	c.put(kept)
	return &copied
}
