package adapter

import (
	"crypto/sha256"
	"fmt"

	"understudy/audit"
	"understudy/audit/diff"
)

// World follows a foreign state that is seen as JSON text before and after each
// call. It is a value: a copy is a fork.
type World struct {
	value  diff.Value
	digest audit.Digest
}

// stateLimits bound a whole foreign state, which is larger than any answer.
func stateLimits() diff.Limits { return diff.Limits{Bytes: 256 << 20, Leaves: 20 << 20} }

// NewWorld reads the state that a session starts in.
func NewWorld(text []byte) (World, error) {
	value, err := diff.Decode(text, stateLimits())
	if err != nil {
		return World{}, fmt.Errorf("state: %w", err)
	}
	return World{value: value, digest: diff.Hash(value)}, nil
}

// Digest is the state's canonical hash.
func (w World) Digest() audit.Digest { return w.digest }

// Value is the state.
func (w World) Value() diff.Value { return w.value }

// Move takes the world to the state in text and returns it with what changed.
// Text nil means that nothing changed.
func (w World) Move(text []byte) (World, diff.Patch, error) {
	if text == nil {
		return w, diff.Patch{}, nil
	}
	next, err := NewWorld(text)
	if err != nil {
		return w, nil, err
	}
	delta := diff.Diff(w.value, next.value)
	if delta == nil {
		delta = diff.Patch{}
	}
	return next, delta, nil
}

// Observe fills in an observation's exact evidence: the delta and both digests.
func (w World) Observe(o *audit.Observation, delta diff.Patch, after World) {
	o.Evidence, o.Delta, o.Before, o.After = audit.EvidenceExact, delta, w.digest, after.digest
}

// DigestOf is the digest of parts, for an environment's identity: it changes
// when any part changes, and no two lists of parts share one.
func DigestOf(parts ...[]byte) audit.Digest {
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d:", len(part)) // a hash never fails to write
		_, _ = h.Write(part)
	}
	return audit.Digest(h.Sum(nil))
}
