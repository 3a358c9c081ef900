package diff

import "maps"

// Bijection is the renaming of surrogate ids within one episode: a rehearsed id
// may differ from the real one, but each stands for exactly one other for the
// rest of the episode. The zero value is empty and ready; it is not safe for
// concurrent use.
type Bijection struct {
	rehearsedOf map[string]string // real → rehearsed
	realOf      map[string]string // rehearsed → real
}

// Clone is an independent copy, to keep the renaming at one step.
func (b *Bijection) Clone() *Bijection {
	if b == nil {
		return &Bijection{}
	}
	return &Bijection{maps.Clone(b.rehearsedOf), maps.Clone(b.realOf)}
}

// Len is the number of pairs.
func (b *Bijection) Len() int {
	if b == nil {
		return 0
	}
	return len(b.realOf)
}

// Rehearsed is what the rehearsal calls a real id. Ids are JSON texts: "7" and 7
// are two.
func (b *Bijection) Rehearsed(realID string) (string, bool) {
	if b == nil {
		return "", false
	}
	id, ok := b.rehearsedOf[realID]
	return id, ok
}

// Real is what a rehearsed id stands for.
func (b *Bijection) Real(rehearsedID string) (string, bool) {
	if b == nil {
		return "", false
	}
	id, ok := b.realOf[rehearsedID]
	return id, ok
}

// Consistent reports whether two ids may stand for each other: both are new, or
// they already do.
func (b *Bijection) Consistent(realID, rehearsedID string) bool {
	rehearsed, known := b.Rehearsed(realID)
	if known {
		return rehearsed == rehearsedID
	}
	_, known = b.Real(rehearsedID)
	return !known
}

// Bind lets two ids stand for each other and reports whether they may.
func (b *Bijection) Bind(realID, rehearsedID string) bool {
	if !b.Consistent(realID, rehearsedID) {
		return false
	}
	if b.realOf == nil {
		b.rehearsedOf, b.realOf = map[string]string{}, map[string]string{}
	}
	b.rehearsedOf[realID], b.realOf[rehearsedID] = rehearsedID, realID
	return true
}

// Pairs is a copy of the renaming, real → rehearsed, such as a snapshot stores.
func (b *Bijection) Pairs() map[string]string {
	if b == nil {
		return nil
	}
	return maps.Clone(b.rehearsedOf)
}
