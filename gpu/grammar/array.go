package grammar

// The phases of an array, and the first ones of an object.
const (
	phaseOpen  = iota // before the bracket
	phaseFirst        // after it: a first item, or the end
	phaseAfter        // after an item
	phaseComma        // after a comma: perhaps a space, then an item
	phaseSpace        // after that space
	phaseKey          // within a key (object)
	phaseColon        // after a key (object)
	phaseValue        // after the colon: perhaps a space, then a value (object)
	phaseValueSpace
)

// array is a JSON array of least..most items. A frame's count is the items
// begun, as far as it matters.
type array struct {
	prefix   []node
	items    node // of what follows prefix; nil = nothing may
	fewest   int
	most     int // -1 = any
	shortest int
}

func (a *array) item(i int64) node {
	if int(i) < len(a.prefix) {
		return a.prefix[i]
	}
	return a.items
}

// bound is what limits the number of items from above; -1 = nothing.
func (a *array) bound() int {
	if a.items == nil && (a.most < 0 || a.most > len(a.prefix)) {
		return len(a.prefix)
	}
	return a.most
}

func (a *array) enter(dst []*stack, parent *stack) []*stack {
	return append(dst, frame{node: a}.on(parent, a.least()))
}

func (a *array) least() int { return a.shortest }

// rest is how few bytes follow the count-th item: missing items and the bracket.
func (a *array) rest(count int64) int {
	sum := 1
	for ; count < int64(min(a.fewest, len(a.prefix))); count++ {
		sum = min(sum+1+a.prefix[count].least(), unreachable)
	}
	missing := a.fewest - int(count)
	if missing <= 0 || a.items == nil {
		return sum
	}
	each := 1 + a.items.least()
	if missing > unreachable/each {
		return unreachable
	}
	return min(sum+missing*each, unreachable)
}

// opened is how few bytes follow the opening bracket.
func (a *array) opened() int {
	if a.fewest == 0 {
		return 1
	}
	return a.rest(0) - 1 // the first item has no comma
}

func (a *array) step(dst []*stack, s *stack, b byte) []*stack {
	switch s.state {
	case phaseOpen:
		if b == '[' {
			return a.first(dst, s.parent)
		}
	case phaseFirst:
		if b == ']' && a.fewest == 0 {
			return leave(dst, s.parent)
		}
	case phaseAfter:
		if b == ']' && s.count >= int64(a.fewest) {
			return leave(dst, s.parent)
		}
		if bound := a.bound(); b == ',' && (bound < 0 || s.count < int64(bound)) {
			return a.next(dst, s, phaseComma)
		}
	case phaseComma:
		if b == ' ' {
			return a.next(dst, s, phaseSpace)
		}
	}
	return dst
}

func (a *array) first(dst []*stack, parent *stack) []*stack {
	dst = append(dst, frame{node: a, state: phaseFirst}.on(parent, a.opened()))
	if bound := a.bound(); bound != 0 {
		dst = a.enterItem(dst, 0, parent)
	}
	return dst
}

// next stands after a comma; in phaseComma a space may come before the item.
func (a *array) next(dst []*stack, s *stack, phase int32) []*stack {
	if phase == phaseComma {
		own := 1 + a.item(s.count).least() + a.rest(s.count+1)
		dst = append(dst, frame{node: a, state: phase, count: s.count}.on(s.parent, own))
	}
	return a.enterItem(dst, s.count, s.parent)
}

func (a *array) enterItem(dst []*stack, i int64, parent *stack) []*stack {
	item := a.item(i)
	if item == nil || item.least() >= unreachable {
		return dst
	}
	count := i + 1
	if a.most < 0 && a.items != nil { // beyond these the count decides nothing
		count = min(count, int64(max(a.fewest, len(a.prefix))))
	}
	f := frame{node: a, state: phaseAfter, count: count}
	return item.enter(dst, f.on(parent, a.rest(count)))
}
