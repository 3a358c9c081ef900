package diff

import (
	"hash/maphash"
	"slices"
)

// Compare judges a rehearsed value against the real one under a tool's rules.
// ids is the episode's renaming so far; ids met under the rule id are bound in
// it, in the order of the walk. nil stands for a renaming that is thrown away.
func Compare(rules *Rules, realValue, rehearsed Value, ids *Bijection) Comparison {
	if ids == nil {
		ids = &Bijection{}
	}
	c := comparer{rules: rules, ids: ids, seed: maphash.MakeSeed()}
	// Enough for a typical answer.
	var buffers struct { // in two parts: the first holds no pointers
		keys  [128]uint64
		sides [128]side
		pairs [16]pair
	}
	var stacks struct {
		path   [8]crumb
		places [16]*place
	}
	c.shape.keys, c.shape.sides = buffers.keys[:], buffers.sides[:]
	c.path, c.pairs, c.places = stacks.path[:0], buffers.pairs[:0], stacks.places[:0]
	if rules != nil {
		c.places = enter(c.places, rules.root)
	}
	if realValue.DuplicateKeys() || rehearsed.DuplicateKeys() {
		c.flag(FlagDuplicateKey)
	}
	m := c.value(realValue, rehearsed, here{hi: len(c.places)})
	return c.result(m)
}

// comparer walks two values side by side.
type comparer struct {
	rules *Rules
	exact Rule // where no pattern matches
	ids   *Bijection
	shape shapes
	seed  maphash.Seed

	places []*place // a stack of sets; here says which is on top
	merged map[[2]*Rule]*Rule
	path   []crumb

	scoring int // > 0 while candidates are tried: no differences, no shape, no binding
	work    int // spent on candidates; see maxWork
	silent  int // > 0 below an array that is reported as a whole: no differences

	pairs []pair // a stack of alignments
	buf   []byte // scratch

	out Comparison
}

// here is a place in the walk: its window of comparer.places and the hash of its
// path pattern.
type here struct {
	lo, hi  int
	pattern uint64
}

// crumb is one token of the path.
type crumb struct {
	name    []byte // of a member
	index   int    // of an element, when name is nil
	dynamic bool   // the name is data: * in patterns
}

// maxWork bounds the nodes visited while candidates for an assignment are tried:
// enough for two full assignments of elements of 1 kB, and a fraction of a second
// on hostile input.
const maxWork = 1 << 20

func (c *comparer) flag(name string) {
	if !slices.Contains(c.out.Flags, name) {
		c.out.Flags = append(c.out.Flags, name)
		slices.Sort(c.out.Flags)
	}
}

func (c *comparer) result(m mass) Comparison {
	out := &c.out
	out.Precision, out.Recall = share(m.hitReh, m.rehearsed), share(m.hitReal, m.real)
	out.F1 = m.f1()
	out.Shape, out.Hallucinated, out.Omitted = c.shape.scores()
	out.MaskedWeight = 0
	if m.masked > 0 {
		out.MaskedWeight = m.masked / (m.masked + m.real)
	}
	for i := range out.Differences {
		d := &out.Differences[i]
		d.Weight = min(1, d.Weight/max(m.total(d), d.Weight, 1e-300))
	}
	return *out
}

// total is the weight of the side that a difference costs.
func (m *mass) total(d *Difference) float64 {
	if d.Kind == Extra || d.Real == nil {
		return m.rehearsed
	}
	return m.real
}

// push enters a child and pop leaves it. An element whose index no pattern names
// shares the places of its siblings.
func (c *comparer) push(at here, step crumb) here {
	c.path = append(c.path, step)
	next := here{lo: len(c.places), pattern: c.childPattern(at, step)}
	if at.lo < at.hi {
		c.places = stepInto(c.places, at, step)
	}
	next.hi = len(c.places)
	return next
}

func (c *comparer) pop(next here) {
	c.path = c.path[:len(c.path)-1]
	c.places = c.places[:next.lo]
}

// stepInto appends the places that one step reaches.
func stepInto(stack []*place, at here, s crumb) []*place {
	token := s.name
	if token == nil {
		for _, p := range stack[at.lo:at.hi] {
			if p.indexed {
				token = appendIndex(nil, s.index)[1:]
				break
			}
		}
	}
	return step(stack, stack[at.lo:at.hi], token)
}

// rule is the rule that holds here; never nil.
func (c *comparer) rule(at here) *Rule {
	var found *Rule
	if c.rules == nil {
		return &c.exact
	}
	if len(c.rules.regexes) > 0 {
		pointer := c.pointer()
		for i := range slices.Backward(c.rules.regexes) {
			if r := &c.rules.regexes[i]; r.expression.Match(pointer) {
				found = c.merge(r.rule, found)
			}
		}
	}
	set := c.places[at.lo:at.hi]
	for rank := -1; ; {
		var next *place
		for _, p := range set {
			if p.rule != nil && p.rank > rank && (next == nil || p.rank < next.rank) {
				next = p
			}
		}
		if next == nil {
			break
		}
		rank, found = next.rank, c.merge(next.rule, found)
	}
	if found == nil {
		return &c.exact
	}
	return found
}

// merge lays a rule over a less specific one.
func (c *comparer) merge(rule, base *Rule) *Rule {
	if base == nil {
		return rule
	}
	key := [2]*Rule{rule, base}
	if m := c.merged[key]; m != nil {
		return m
	}
	if c.merged == nil {
		c.merged = map[[2]*Rule]*Rule{}
	}
	m := rule.over(base)
	c.merged[key] = m
	return m
}

// value compares two values, of which one may be absent, and records how they
// differ.
func (c *comparer) value(x, y Value, at here) mass {
	rule := c.rule(at)
	tx, ty := x.Type(), y.Type()
	switch {
	case tx == TypeAbsent && ty == TypeAbsent:
		return mass{}
	case rule.masked:
		return mass{masked: c.maskedWeight(x, at, rule)}
	case rule.Equate != nil && rule.equates(voidOf(x), voidOf(y)):
		return c.voids(x, y, at, rule)
	case rule.Coerce && tx != ty && coerces(x, y):
		return c.coerced(x, y, at, rule)
	}
	if tx != TypeAbsent && ty != TypeAbsent {
		c.see(at, tx, ty)
	}
	switch {
	case tx == TypeAbsent || ty == TypeAbsent:
		return c.oneSided(x, y, at, rule)
	case rule.Class == Volatile:
		return c.volatile(x, y, rule)
	case tx != ty:
		return c.typesDiffer(x, y, at, rule)
	case tx == TypeObject:
		return c.object(x, y, at, rule)
	case tx == TypeArray:
		return c.array(x, y, at, rule)
	}
	return c.leaf(x, y, rule)
}

// oneSided judges a value that one side lacks: all its leaves count.
func (c *comparer) oneSided(x, y Value, at here, rule *Rule) mass {
	kind, present, m := Missing, x, mass{}
	if x.Type() == TypeAbsent {
		kind, present = Extra, y
	}
	if rule.Presence == Optional {
		return mass{}
	}
	if kind == Extra {
		m.rehearsed = c.extent(present, at, rule, onRehearsed)
	} else {
		m.real = c.extent(present, at, rule, onReal)
	}
	if present.Type() == TypeNull {
		kind = AbsentNull
	}
	c.record(kind, x, y, rule, m.real+m.rehearsed, false)
	return m
}

// volatile judges type and presence only.
func (c *comparer) volatile(x, y Value, rule *Rule) mass {
	weight := leafWeight(x, rule)
	if x.Type() == y.Type() {
		return both(weight, true)
	}
	c.record(TypeChanged, x, y, rule, weight, false)
	return both(weight, false)
}

func (c *comparer) typesDiffer(x, y Value, at here, rule *Rule) mass {
	if rule.Class == ID && c.scoring == 0 {
		c.out.IDs++ // a reference, and not a consistent one
	}
	m := mass{real: c.extent(x, at, rule, onReal), rehearsed: c.extent(y, at, rule, onRehearsed)}
	c.record(TypeChanged, x, y, rule, m.real, false)
	return m
}

func (c *comparer) object(x, y Value, at here, rule *Rule) mass {
	m := emptyMass(x, y)
	i, j := 0, 0
	for i < x.Len() || j < y.Len() {
		var kx, ky Value
		switch order := memberOrder(x, y, i, j); {
		case order < 0:
			kx = x.At(i)
			i++
		case order > 0:
			ky = y.At(j)
			j++
		default:
			kx, ky = x.At(i), y.At(j)
			i++
			j++
		}
		named := kx
		if kx.d == nil {
			named = ky
		}
		next := c.push(at, crumb{name: named.name(), dynamic: rule.Map})
		m.add(c.value(kx, ky, next))
		c.pop(next)
	}
	return m
}

// emptyMass is the mass of containers without children: each is one leaf.
func emptyMass(x, y Value) (m mass) {
	if x.Len() == 0 {
		m.real = emptyWeight
	}
	if y.Len() == 0 {
		m.rehearsed = emptyWeight
	}
	if m.real > 0 && m.rehearsed > 0 {
		return both(emptyWeight, true)
	}
	return m
}
