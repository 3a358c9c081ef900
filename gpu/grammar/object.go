package grammar

// object is a JSON object. Its members come in any order, each declared one at
// most once. A frame's state packs the phase and, in a key, where the key stands
// in the trie of declared ones; seen are the declared members so far; count is
// the number of members where that is bounded.
type object struct {
	members  []member
	extra    node // of members that are not declared; nil = none may be
	most     int  // members; -1 = any
	keys     []keyNode
	shortest int
}

type member struct {
	key      string // between the quotes, escaped
	value    node
	required bool
}

// keyNode is a place in the trie of declared keys.
type keyNode struct {
	children map[byte]int32
	depth    int
	below    []int // members whose keys pass here
	ends     int   // the member whose key ends here, or -1
	char     int32 // the rune in progress
	escaped  bool  // an escape came: no undeclared key can begin so
}

// offTrie is the place of a key that is no declared one; the rune in progress is
// added to it.
const offTrie = 1 << 20

func newObject(members []member, extra node, most int) *object {
	o := &object{members: members, extra: extra, most: most, keys: []keyNode{{children: map[byte]int32{}, ends: -1}}}
	for i, m := range members {
		at := int32(0)
		for j := range len(m.key) {
			o.keys[at].below = append(o.keys[at].below, i)
			next, ok := o.keys[at].children[m.key[j]]
			if !ok {
				next = int32(len(o.keys)) //nolint:gosec // bounded by the schema's bytes
				char, _ := nextRune(o.keys[at].char, m.key[j])
				escaped := o.keys[at].escaped || m.key[j] == '\\'
				o.keys = append(o.keys, keyNode{children: map[byte]int32{}, depth: j + 1, ends: -1, char: char, escaped: escaped})
				o.keys[at].children[m.key[j]] = next
			}
			at = next
		}
		o.keys[at].below = append(o.keys[at].below, i)
		o.keys[at].ends = i
	}
	return o
}

func (o *object) enter(dst []*stack, parent *stack) []*stack {
	return append(dst, frame{node: o}.on(parent, o.least()))
}

func (o *object) least() int { return o.shortest }

func hasSeen(seen string, i int) bool { return i/8 < len(seen) && seen[i/8]>>(i%8)&1 == 1 }

func withSeen(seen string, i int) string {
	b := []byte(seen)
	for len(b) <= i/8 {
		b = append(b, 0)
	}
	b[i/8] |= 1 << (i % 8)
	return string(b)
}

func (o *object) missing(f frame) int {
	n := 0
	for i, m := range o.members {
		if m.required && !hasSeen(f.seen, i) {
			n++
		}
	}
	return n
}

// open says what may still be a member: only required ones where the bound
// leaves no room for others.
func (o *object) open(f frame) (optional bool) {
	return o.most < 0 || int64(o.most)-f.count > int64(o.missing(f))
}

func (o *object) mayBe(f frame, i int, optional bool) bool {
	return !hasSeen(f.seen, i) && (optional || o.members[i].required) && o.members[i].value.least() < unreachable
}

// memberCost is the bytes of a whole member without its comma.
func (m member) memberCost() int { return 3 + len(m.key) + m.value.least() }

// after is how few bytes follow a member: what is required, and the brace.
func (o *object) after(f frame) int {
	sum := 1
	for i, m := range o.members {
		if m.required && !hasSeen(f.seen, i) {
			sum = min(sum+1+m.memberCost(), unreachable)
		}
	}
	return sum
}

// opened is how few bytes follow the opening brace.
func (o *object) opened(f frame) int {
	if o.missing(f) == 0 {
		return 1
	}
	return o.after(f) - 1 // the first member has no comma
}

// keyRest is how few bytes follow within a key at place, to the object's end.
func (o *object) keyRest(f frame, place int32) int {
	optional, least := o.open(f), unreachable
	if place >= offTrie {
		return runeRest(place-offTrie) + 2 + o.extra.least() + o.after(f)
	}
	at, after := &o.keys[place], o.after(f)
	for _, i := range at.below {
		if o.mayBe(f, i, optional) && after < unreachable {
			m, rest := o.members[i], after
			if m.required { // it is one of those that are still to come
				rest -= 1 + m.memberCost()
			}
			least = min(least, len(m.key)-at.depth+2+m.value.least()+rest)
		}
	}
	if o.extra != nil && optional && !at.escaped {
		free := runeRest(at.char) + 2 + o.extra.least() + after
		if at.ends >= 0 {
			free++ // another character makes it undeclared
		}
		least = min(least, free)
	}
	return least
}

func (o *object) step(dst []*stack, s *stack, b byte) []*stack {
	phase, arg := s.state&0xF, s.state>>4
	switch phase {
	case phaseOpen:
		if b == '{' {
			return append(dst, frame{node: o, state: phaseFirst}.on(s.parent, o.opened(s.frame)))
		}
	case phaseFirst, phaseAfter:
		return o.between(dst, s, phase, b)
	case phaseComma, phaseSpace:
		if b == ' ' && phase == phaseComma {
			return o.at(dst, s, phaseSpace, 1+o.keyRest(s.frame, 0))
		}
		if b == '"' {
			return o.at(dst, s, phaseKey, o.keyRest(s.frame, 0))
		}
	case phaseKey:
		return o.key(dst, s, arg, b)
	case phaseColon:
		if b == ':' {
			return o.value(dst, s, arg, phaseValue)
		}
	case phaseValue:
		if b == ' ' {
			return o.value(dst, s, arg, phaseValueSpace)
		}
	}
	return dst
}

// at moves s to another phase, own bytes from the end.
func (o *object) at(dst []*stack, s *stack, state int32, own int) []*stack {
	if own >= unreachable {
		return dst
	}
	f := s.frame
	f.state = state
	return append(dst, f.on(s.parent, own))
}

func (o *object) between(dst []*stack, s *stack, phase int32, b byte) []*stack {
	switch {
	case b == '}' && o.missing(s.frame) == 0:
		return leave(dst, s.parent)
	case b == ',' && phase == phaseAfter:
		return o.at(dst, s, phaseComma, 1+o.keyRest(s.frame, 0))
	case b == '"' && phase == phaseFirst:
		return o.at(dst, s, phaseKey, o.keyRest(s.frame, 0))
	}
	return dst
}

// key reads one byte of a key at place.
func (o *object) key(dst []*stack, s *stack, place int32, b byte) []*stack {
	optional := o.open(s.frame)
	free := o.extra != nil && optional
	if place >= offTrie {
		if b == '"' && place == offTrie {
			return o.colon(dst, s, -1)
		}
		return o.freeKey(dst, s, place-offTrie, b)
	}
	at := &o.keys[place]
	free = free && !at.escaped
	child, declared := at.children[b]
	switch {
	case declared: // first: within an escape, a quote is part of the key
		return o.at(dst, s, phaseKey|child<<4, o.keyRest(s.frame, child))
	case b != '"' && free:
		return o.freeKey(dst, s, at.char, b)
	case b != '"':
		return dst
	case at.ends >= 0 && o.mayBe(s.frame, at.ends, optional):
		return o.colon(dst, s, at.ends)
	case at.ends < 0 && free && at.char == runeDone:
		return o.colon(dst, s, -1)
	}
	return dst
}

// freeKey leaves or has left the trie; such keys are written without escapes.
func (o *object) freeKey(dst []*stack, s *stack, char int32, b byte) []*stack {
	if char == runeDone && (b < 0x20 || b == '"' || b == '\\') {
		return dst
	}
	char, ok := nextRune(char, b)
	if !ok {
		return dst
	}
	place := offTrie + char
	if state := phaseKey | place<<4; state == s.state {
		return append(dst, s)
	}
	return o.at(dst, s, phaseKey|place<<4, o.keyRest(s.frame, place))
}

// colon stands after the key of member i, or of an undeclared one (-1).
func (o *object) colon(dst []*stack, s *stack, i int) []*stack {
	f := s.frame
	if o.most >= 0 {
		f.count++
	}
	value := o.extra
	if i >= 0 {
		f.seen = withSeen(f.seen, i)
		value = o.members[i].value
	}
	if value.least() >= unreachable {
		return dst
	}
	f.state = phaseColon | int32(i+1)<<4 //nolint:gosec // a member's index
	return append(dst, f.on(s.parent, 1+value.least()+o.after(f)))
}

func (o *object) value(dst []*stack, s *stack, arg, phase int32) []*stack {
	value := o.extra
	if arg > 0 {
		value = o.members[arg-1].value
	}
	f := s.frame
	f.state = phaseAfter
	after := o.after(f)
	if phase == phaseValue {
		f.state = phaseValue | arg<<4
		dst = append(dst, f.on(s.parent, 1+value.least()+after))
		f.state = phaseAfter
	}
	return value.enter(dst, f.on(s.parent, after))
}

// escapeKey writes a declared key as it must appear between quotes.
func escapeKey(key string) string {
	quoted := quote(key)
	return quoted[1 : len(quoted)-1]
}
