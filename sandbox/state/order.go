package state

import "slices"

const (
	chunkBits = 5 // 32 keys a leaf, 32 children a branch
	chunkSize = 1 << chunkBits
)

// order is a persistent list of keys: position → key. Extending it copies one
// chunk and the path to it, so that versions of an object, forks and dropped
// transactions share the rest.
type order struct {
	full *chunk   // the tree of full leaves; nil when there is none
	tail []string // the last, not yet full leaf
	size int      // of full and tail together
	bits int      // full's index bits above a leaf's
}

// chunk is a leaf of chunkSize keys, or a branch.
type chunk struct {
	kids []*chunk
	keys []string
}

// newOrder lists keys, which it copies.
func newOrder(keys []string) *order {
	o := &order{}
	for len(keys) >= chunkSize {
		o = o.push(slices.Clone(keys[:chunkSize]), true)
		keys = keys[chunkSize:]
	}
	return &order{full: o.full, bits: o.bits, tail: slices.Clone(keys), size: o.size + len(keys)}
}

// append returns the list with key at its end.
func (o *order) append(key string) *order {
	if len(o.tail) == chunkSize {
		o = o.push(o.tail, false)
	}
	tail := make([]string, len(o.tail)+1)
	copy(tail, o.tail)
	tail[len(o.tail)] = key
	return &order{full: o.full, bits: o.bits, tail: tail, size: o.size + 1}
}

// push moves a full leaf into the tree. Its keys count already unless fresh.
func (o *order) push(keys []string, fresh bool) *order {
	next := &order{full: o.full, bits: o.bits, size: o.size}
	at := o.size - chunkSize
	if fresh {
		at = o.size
		next.size += chunkSize
	}
	leaf := &chunk{keys: keys}
	switch {
	case o.full == nil:
		next.full = leaf
	case at>>chunkBits == 1<<o.bits: // the tree is full: one level more
		next.bits += chunkBits
		next.full = (&chunk{kids: []*chunk{o.full}}).with(at, next.bits, leaf)
	default:
		next.full = o.full.with(at, o.bits, leaf)
	}
	return next
}

// with puts leaf at position at, copying the path.
func (c *chunk) with(at, bits int, leaf *chunk) *chunk {
	if bits == 0 {
		return leaf
	}
	i := at >> bits & (chunkSize - 1)
	kids := make([]*chunk, max(len(c.kids), i+1))
	copy(kids, c.kids)
	below := kids[i]
	if below == nil {
		below = &chunk{}
	}
	kids[i] = below.with(at, bits-chunkBits, leaf)
	return &chunk{kids: kids}
}

// each calls f with every position and key until f returns false.
func (o *order) each(f func(at int, key string) bool) {
	at := 0
	if o.full != nil && !o.full.each(&at, f) {
		return
	}
	for _, k := range o.tail {
		if !f(at, k) {
			return
		}
		at++
	}
}

func (c *chunk) each(at *int, f func(at int, key string) bool) bool {
	for _, kid := range c.kids {
		if !kid.each(at, f) {
			return false
		}
	}
	for _, k := range c.keys {
		if !f(*at, k) {
			return false
		}
		*at++
	}
	return true
}
