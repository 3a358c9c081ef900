package grammar

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// maxAlternatives bounds the alternatives that combinations multiply to.
const maxAlternatives = 256

// alternatives writes the conjunction as a choice between facets: references are
// followed, allOf is merged, anyOf and oneOf are multiplied out.
func (c *compiler) alternatives(all conjunction, visiting []string) ([]facets, error) {
	out := []facets{anything()}
	for _, l := range all {
		each, err := c.expand(l, visiting)
		if err != nil {
			return nil, err
		}
		if out, err = c.product(l, out, each); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) product(l located, a, b []facets) ([]facets, error) {
	if len(a)*len(b) > maxAlternatives {
		return nil, fmt.Errorf("schema at %s: combinations have over %d alternatives", l.at, maxAlternatives)
	}
	var out []facets
	for _, x := range a {
		for _, y := range b {
			if err := c.spend(x.weight() + y.weight()); err != nil {
				return nil, err
			}
			if m := merge(x, y); m.kinds != 0 {
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// expand is alternatives of one subschema.
func (c *compiler) expand(l located, visiting []string) ([]facets, error) {
	if yes, ok := l.value.(bool); ok {
		if !yes {
			return nil, nil
		}
		return []facets{anything()}, nil
	}
	keywords, ok := l.value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("schema at %s: neither an object nor true or false", l.at)
	}
	if slices.Contains(visiting, l.at) {
		return nil, fmt.Errorf("schema at %s: refers to itself with nothing between", l.at)
	}
	if err := c.spend((1 + len(visiting)) * (1 + len(l.at)/byteWork) * breadth(keywords)); err != nil {
		return nil, err
	}
	visiting = append(slices.Clone(visiting), l.at)
	base := anything()
	out := []facets{base}
	for _, keyword := range slices.Sorted(maps.Keys(keywords)) {
		var each []facets
		var err error
		switch keyword {
		case "$ref":
			each, err = c.expandRef(l, visiting)
		case "allOf":
			each, err = c.expandAll(l, visiting)
		case "anyOf", "oneOf":
			each, err = c.expandAny(l, keyword, visiting)
		default:
			if err = base.read(l, keyword, c.ignore); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if out, err = c.product(l, out, each); err != nil {
			return nil, err
		}
	}
	return c.product(l, []facets{base}, out)
}

func (c *compiler) expandRef(l located, visiting []string) ([]facets, error) {
	value, _ := child(l.value, "$ref")
	ref, _ := value.(string)
	target, err := c.doc.resolve(l, ref)
	if err != nil {
		return nil, err
	}
	return c.expand(target, visiting)
}

func (c *compiler) expandAll(l located, visiting []string) ([]facets, error) {
	out := []facets{anything()}
	for _, part := range parts(l, "allOf") {
		each, err := c.expand(part, visiting)
		if err != nil {
			return nil, err
		}
		if out, err = c.product(l, out, each); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) expandAny(l located, keyword string, visiting []string) ([]facets, error) {
	var out []facets
	var branches [][]facets
	for _, part := range parts(l, keyword) {
		each, err := c.expand(part, visiting)
		if err != nil {
			return nil, err
		}
		branches = append(branches, each)
		out = append(out, each...)
	}
	if keyword == "oneOf" {
		for i, a := range branches {
			for j, b := range branches[:i] {
				if !c.apart(a, b) {
					return nil, unsupported(l, keyword, fmt.Sprintf("one value may be both alternative %d and %d; write anyOf, or a required constant that tells them apart", j, i))
				}
			}
		}
	}
	return out, nil
}

func parts(l located, keyword string) []located {
	here := l.child(keyword)
	list, _ := here.value.([]any)
	out := make([]located, len(list))
	for i := range list {
		out[i] = here.child(strconv.Itoa(i))
	}
	return out
}

// apartDepth is how far members of members are looked at to tell objects apart.
const apartDepth = 4

// apart says whether no value is plainly of both: different types, different
// constants, or objects that a required member tells apart.
func (c *compiler) apart(a, b []facets) bool {
	for _, x := range a {
		for _, y := range b {
			if !c.pairApart(x, y) {
				return false
			}
		}
	}
	return true
}

func (c *compiler) pairApart(a, b facets) bool {
	if c.spend(a.weight()+b.weight()) != nil {
		return false // the next step of compiling refuses, too
	}
	m := merge(a, b)
	switch {
	case m.kinds == 0:
		return true
	case a.closed && b.closed:
		return len(m.enum) == 0
	case m.kinds != kindObject || c.depth == apartDepth:
		return false
	}
	c.depth++
	defer func() { c.depth-- }()
	for _, name := range m.required {
		x, inA := a.member(name)
		y, inB := b.member(name)
		if !inA || !inB {
			return true
		}
		xs, errX := c.alternatives(x, nil)
		ys, errY := c.alternatives(y, nil)
		if errX == nil && errY == nil && c.apart(xs, ys) {
			return true
		}
	}
	return false
}

// merge is what both allow.
func merge(a, b facets) facets {
	m := a
	m.kinds &= b.kinds
	if b.closed {
		m.restrict(b.enum)
	}
	m.minLength, m.maxLength = max(a.minLength, b.minLength), int64(lower(int(a.maxLength), int(b.maxLength)))
	m.patterns = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.patterns, b.patterns))))
	if b.low != nil {
		m.raise(b.low, b.lowOpen)
	}
	if b.high != nil {
		m.reduce(b.high, b.highOpen)
	}
	m.minItems, m.maxItems = max(a.minItems, b.minItems), lower(a.maxItems, b.maxItems)
	m.minMembers, m.maxMembers = max(a.minMembers, b.minMembers), lower(a.maxMembers, b.maxMembers)
	m.required = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.required, b.required))))
	m.mergeItems(a, b)
	m.mergeMembers(a, b)
	return m
}

func (f *facets) mergeItems(a, b facets) {
	f.prefix = nil
	for i := range max(len(a.prefix), len(b.prefix)) {
		x, inA := a.item(i)
		y, inB := b.item(i)
		if !inA || !inB { // no such item: nor any after it
			f.maxItems = lower(f.maxItems, i)
			f.noItems = true
			return
		}
		f.prefix = append(f.prefix, x.and(y...))
	}
	f.items, f.noItems = a.items.and(b.items...), a.noItems || b.noItems
}

func (f *facets) mergeMembers(a, b facets) {
	f.members = map[string]conjunction{}
	for _, from := range []facets{a, b} {
		for name := range from.members {
			x, inA := a.member(name)
			y, inB := b.member(name)
			if inA && inB {
				f.members[name] = x.and(y...)
			}
		}
	}
	f.extra, f.noExtra = a.extra.and(b.extra...), a.noExtra || b.noExtra
}
