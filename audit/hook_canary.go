package audit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"
)

// canaryPlaces knows where the canary battery calls. It looks for new canaries
// at most once in canaryLook for each environment.
type canaryPlaces struct {
	find func(ctx context.Context, environment string) ([]Episode, error)

	mu     sync.Mutex
	known  map[string]map[Digest]bool
	looked map[string]time.Time
}

// canaryLook: canaries are made once for a checkpoint, not once a minute.
const canaryLook = time.Minute

// canaryPlace identifies a call at its place.
func canaryPlace(initial, trail, call Digest) Digest {
	return sha256.Sum256(slices.Concat(initial[:], trail[:], call[:]))
}

func (c *canaryPlaces) holds(ctx context.Context, environment string, place Digest) (bool, error) {
	if c.find == nil {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked[environment]) > canaryLook {
		episodes, err := c.find(ctx, environment)
		if err != nil {
			return false, fmt.Errorf("look for canaries: %w", err)
		}
		if c.known == nil {
			c.known, c.looked = make(map[string]map[Digest]bool), make(map[string]time.Time)
		}
		c.known[environment], c.looked[environment] = placesOf(episodes), now
	}
	return c.known[environment][place], nil
}

func placesOf(episodes []Episode) map[Digest]bool {
	places := make(map[Digest]bool, len(episodes))
	for i := range episodes {
		initial, err := startDigest(episodes[i].Start)
		if err != nil {
			continue // a start that cannot be written is no trainer's either
		}
		trail := Digest{}
		for j := range episodes[i].Actions {
			call := CallDigest(episodes[i].Actions[j].Call)
			if episodes[i].Actions[j].Canary != nil {
				places[canaryPlace(initial, trail, call)] = true
			}
			trail = extend(trail, call)
		}
	}
	return places
}

// report raises an alarm when the batch held a canary: whoever made it knows the
// battery, or trains on what it was asked in it.
func (w *settlement) report(ctx context.Context) error {
	if !w.alarmed {
		return nil
	}
	b := &w.job.batch
	return w.hook.config.Store.Raise(ctx, []Alarm{{
		Kind: AlarmCanary, Run: b.Run, Policy: b.Policy, Step: b.Checkpoint, Value: 1,
		Message: "an output is a call of the canary battery at its place; it was not paid",
	}})
}
