package diff

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// alignMultiset pairs equal elements, and of the rest those that are most alike.
func (c *comparer) alignMultiset(x, y Value, at here) {
	hx, hy := c.hashes(x, 0, x.Len()), c.hashes(y, 0, y.Len())
	slices.SortFunc(hx, byHash)
	slices.SortFunc(hy, byHash)
	same := func(i, j int32) bool { return Equal(x.At(int(i)), y.At(int(j))) }
	restX, restY := joinHashes(hx, hy, same, func(i, j int32) { c.pair(int(i), int(j)) })
	c.alignRest(x, y, restX, restY, at)
}

// alignKeyed pairs elements whose key fields are equal. A key that occurs twice
// on one side cannot tell elements apart: the array is then a multiset. Elements
// without a key, and those whose key is a renamed id, go by likeness.
func (c *comparer) alignKeyed(x, y Value, at here, rule *Rule) {
	var translate *Bijection
	renamed := c.keyIsID(at, rule)
	if renamed {
		translate = c.ids
	}
	kx, restX := c.keys(x, rule, nil)
	ky, restY := c.keys(y, rule, translate)
	if duplicates(kx) || duplicates(ky) {
		if c.scoring == 0 {
			c.flag(FlagDuplicateKey)
		}
		c.alignMultiset(x, y, at)
		return
	}
	always := func(int32, int32) bool { return true }
	lonelyX, lonelyY := joinHashes(kx, ky, always, func(i, j int32) { c.pair(int(i), int(j)) })
	if renamed {
		restX, restY = append(restX, lonelyX...), append(restY, lonelyY...)
		lonelyX, lonelyY = nil, nil
	}
	for _, i := range lonelyX {
		c.pair(int(i), -1)
	}
	for _, j := range lonelyY {
		c.pair(-1, int(j))
	}
	c.alignRest(x, y, restX, restY, at)
}

// keyIsID reports whether some key field of an array's elements is compared under
// the rule id.
func (c *comparer) keyIsID(at here, rule *Rule) bool {
	if c.rules == nil || !c.rules.hasIDs {
		return false
	}
	element := c.push(at, crumb{index: 0})
	defer c.pop(element)
	for _, field := range rule.Fields {
		tokens, err := parsePointer(fieldPointer(field))
		if err != nil {
			continue
		}
		place := element
		for _, token := range tokens {
			place = c.push(place, crumb{name: []byte(token)})
		}
		isID := c.rule(place).Class == ID
		c.path = c.path[:len(c.path)-len(tokens)]
		c.places = c.places[:element.hi]
		if isID {
			return true
		}
	}
	return false
}

// keys hashes the key of every element, sorted; keyless lists those that lack a
// field. With ids, a rehearsed id is translated to the real one first.
func (c *comparer) keys(v Value, rule *Rule, ids *Bijection) (keys []keyed64, keyless []int32) {
	keys = make([]keyed64, 0, v.Len())
	for i := range v.Len() {
		if c.appendKey(v.At(i), rule, ids) {
			keys = append(keys, keyed64{maphash.Bytes(c.seed, c.buf), int32(i)})
			continue
		}
		keyless = append(keyless, int32(i))
	}
	slices.SortFunc(keys, byHash)
	return keys, keyless
}

// appendKey writes an element's key to c.buf.
func (c *comparer) appendKey(element Value, rule *Rule, ids *Bijection) bool {
	c.buf = c.buf[:0]
	for _, field := range rule.Fields {
		value, ok := element.Get(field)
		if !ok && field[0] == '/' {
			value, ok = element.Lookup(field)
		}
		if !ok {
			return false
		}
		if ids.Len() == 0 {
			c.buf = appendCanonical(c.buf, value)
			continue
		}
		if realID, ok := ids.Real(string(value.JSON())); ok {
			if translated, err := Decode([]byte(realID), Limits{}); err == nil {
				value = translated
			}
		}
		c.buf = appendCanonical(c.buf, value)
	}
	return true
}

func duplicates(keys []keyed64) bool {
	for i := 1; i < len(keys); i++ {
		if keys[i].hash == keys[i-1].hash {
			return true
		}
	}
	return false
}

// alignRest pairs elements that no hash or key has paired: by the best
// assignment up to maxAssign on a side, beyond that greedily and flagged. Both
// lists are brought into canonical order first, so that the order in which they
// were written changes nothing.
func (c *comparer) alignRest(x, y Value, restX, restY []int32, at here) {
	lo := len(c.pairs)
	xs, ys := ordered(x, restX), ordered(y, restY)
	flip := slices.CompareFunc(xs, ys, func(a, b candidate) int { return order(a.v, b.v) }) > 0
	if flip {
		xs, ys = ys, xs
	}
	var taken []pair
	switch {
	case len(xs) == 0 || len(ys) == 0:
	case len(xs) == 1 && len(ys) == 1:
		taken = []pair{{0, 0}}
	case c.affordable(values(xs), values(ys)):
		like := make([]float64, 0, len(xs)*len(ys))
		for _, a := range xs {
			for _, b := range ys {
				like = append(like, c.try(a.v, b.v, at, flip))
			}
		}
		taken = assign(like, len(xs), len(ys))
	default:
		c.flag(FlagApproximate)
		taken = c.greedy(xs, ys)
	}
	usedX, usedY := make([]bool, len(xs)), make([]bool, len(ys))
	for _, p := range taken {
		usedX[p.i], usedY[p.j] = true, true
		c.pair(int(xs[p.i].index), int(ys[p.j].index))
	}
	for i, used := range usedX {
		if !used {
			c.pair(int(xs[i].index), -1)
		}
	}
	for j, used := range usedY {
		if !used {
			c.pair(-1, int(ys[j].index))
		}
	}
	if flip {
		transpose(c.pairs[lo:])
	}
}

// candidate is an element that looks for its counterpart.
type candidate struct {
	v     Value
	index int32
}

// ordered lists elements in canonical order.
func ordered(v Value, indices []int32) []candidate {
	out := make([]candidate, 0, len(indices))
	for _, i := range indices {
		out = append(out, candidate{v.At(int(i)), i})
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return order(a.v, b.v) })
	return out
}

func values(candidates []candidate) []Value {
	out := make([]Value, len(candidates))
	for i, c := range candidates {
		out[i] = c.v
	}
	return out
}

// order is a total order of values: by type, numbers by value, texts by bytes,
// containers by their children. Equal values are equal.
func order(a, b Value) int {
	if c := int(a.Type()) - int(b.Type()); c != 0 {
		return c
	}
	switch a.Type() {
	case TypeNumber:
		var bufA, bufB [48]byte
		return parseDecimal(a.text(), bufA[:]).cmp(parseDecimal(b.text(), bufB[:]))
	case TypeBool, TypeString:
		return bytes.Compare(a.text(), b.text())
	case TypeArray, TypeObject:
		for i := range min(a.Len(), b.Len()) {
			x, y := a.At(i), b.At(i)
			if c := bytes.Compare(x.name(), y.name()); c != 0 {
				return c
			}
			if c := order(x, y); c != 0 {
				return c
			}
		}
		return a.Len() - b.Len()
	case TypeAbsent, TypeNull:
	}
	return 0
}
