package diff

import "hash/maphash"

// side says in which of the two values a path pattern was seen.
type side uint8

const (
	onReal side = 1 << iota
	onRehearsed
	onNone side = 0
)

// shapes is the set of typed path patterns of both values: a hash table from the
// pattern's hash to the sides it was seen on.
type shapes struct {
	keys  []uint64 // 0 = free; the length is a power of two
	sides []side
	used  int
}

// add notes that a pattern was seen.
func (s *shapes) add(key uint64, where side) {
	key |= 1 // never 0
	mask := uint64(len(s.keys) - 1)
	i := (key >> 1) & mask
	for s.keys[i] != 0 && s.keys[i] != key {
		i = (i + 1) & mask
	}
	if s.keys[i] == 0 {
		if s.used++; s.used*2 > len(s.keys) {
			s.grow()
			s.used--
			s.add(key, where)
			return
		}
		s.keys[i] = key
	}
	s.sides[i] |= where
}

func (s *shapes) grow() {
	keys, sides := s.keys, s.sides
	s.keys, s.sides, s.used = make([]uint64, 2*len(keys)), make([]side, 2*len(keys)), 1
	for i, key := range keys {
		if key != 0 {
			s.add(key, sides[i])
		}
	}
}

// scores is the Jaccard index and the shares of one-sided patterns.
func (s *shapes) scores() (jaccard, hallucinated, omitted float64) {
	var common, inReal, inRehearsed float64
	for _, where := range s.sides {
		if where&onReal != 0 {
			inReal++
		}
		if where&onRehearsed != 0 {
			inRehearsed++
		}
		if where == onReal|onRehearsed {
			common++
		}
	}
	jaccard = share(common, inReal+inRehearsed-common)
	return jaccard, 1 - share(common, inRehearsed), 1 - share(common, inReal)
}

// mix joins two hashes.
func mix(a, b uint64) uint64 {
	h := (a ^ b*0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93
	return h ^ h>>32
}

// childPattern is the hash of a child's path pattern.
func (c *comparer) childPattern(at here, step crumb) uint64 {
	const star = 0x5851F42D4C957F2D
	if step.name == nil || step.dynamic {
		return mix(at.pattern, star)
	}
	return mix(at.pattern, maphash.Bytes(c.seed, step.name))
}

// see notes the types under a path that both sides have. The root counts only
// when the two are no containers of one type: that they are objects says nothing.
func (c *comparer) see(at here, tx, ty Type) {
	if c.scoring > 0 || len(c.path) == 0 && tx == ty && tx >= TypeArray {
		return
	}
	if tx == ty {
		c.shape.add(mix(at.pattern, uint64(tx)), onReal|onRehearsed)
		return
	}
	c.shape.add(mix(at.pattern, uint64(tx)), onReal)
	c.shape.add(mix(at.pattern, uint64(ty)), onRehearsed)
}

// extent is the leaf weight of a value that is compared as a whole, and notes its
// shape on one side.
func (c *comparer) extent(v Value, at here, rule *Rule, where side) float64 {
	if rule.masked {
		return 0
	}
	if where != onNone && c.scoring == 0 {
		c.shape.add(mix(at.pattern, uint64(v.Type())), where)
	}
	switch {
	case v.Type() == TypeAbsent:
		return 0
	case v.isLeaf() || rule.Class == Volatile:
		return leafWeight(v, rule)
	}
	total, elements := 0.0, 0
	for i := range v.Len() {
		kid := v.At(i)
		step := crumb{index: i}
		if v.Type() == TypeObject {
			step = crumb{name: kid.name(), dynamic: rule.Map}
		}
		next := c.push(at, step)
		weight := c.extent(kid, next, c.rule(next), where)
		c.pop(next)
		total += weight
		if weight > 0 {
			elements++
		}
	}
	if v.Type() == TypeArray && elements > 0 {
		return arrayWeight(elements)
	}
	return total
}

// maskedWeight is the weight that a mask hides: of the value as if there were no
// mask on its own path.
func (c *comparer) maskedWeight(v Value, at here, rule *Rule) float64 {
	open := *rule
	open.masked = false
	return c.extent(v, at, &open, onNone)
}
