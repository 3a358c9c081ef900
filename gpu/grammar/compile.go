package grammar

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// maxNodes bounds the compiled size of a schema.
const maxNodes = 5000

// compiler turns subschemas into nodes, each once.
type compiler struct {
	vocabulary *Vocabulary
	doc        *document
	nodes      map[string]*union
	ignored    map[string]bool
	depth      int // of objects that are being told apart
	work       int // done so far, see maxWork
	// measured are nodes whose shortest text is found when all exist.
	measured []measurable
}

// measurable is a node whose least depends on others, perhaps on itself.
type measurable interface {
	// remeasure computes the shortest text again; it says whether that changed.
	remeasure() bool
	// size is how many parts it looks at for that.
	size() int
}

// compileSchema gives the node of a JSON Schema document.
func compileSchema(v *Vocabulary, raw []byte) (node, []string, error) {
	doc, err := parseSchema(raw)
	if err != nil {
		return nil, nil, err
	}
	c := &compiler{vocabulary: v, doc: doc, nodes: map[string]*union{}, ignored: map[string]bool{}}
	n, err := c.compile(conjunction{{at: "#", value: doc.root}})
	if err != nil {
		return nil, nil, err
	}
	if err := c.measure(); err != nil {
		return nil, nil, err
	}
	if n.least() >= unreachable {
		return nil, nil, errors.New("schema: no finite value satisfies it")
	}
	return n, slices.Sorted(maps.Keys(c.ignored)), nil
}

// measure finds the shortest texts: a node's hangs on those of the nodes within it,
// which were made after it.
func (c *compiler) measure() error {
	for changed := true; changed; {
		changed = false
		for _, m := range slices.Backward(c.measured) {
			if err := c.spend(m.size()); err != nil {
				return err
			}
			changed = m.remeasure() || changed
		}
	}
	return nil
}

func (c *compiler) ignore(at string) { c.ignored[at] = true }

func (c *compiler) compile(all conjunction) (node, error) {
	key := all.key()
	if u, ok := c.nodes[key]; ok {
		return u, nil
	}
	if len(c.nodes) > maxNodes {
		return nil, fmt.Errorf("schema: over %d constructs", maxNodes)
	}
	if err := c.spend(len(key) / byteWork); err != nil {
		return nil, err
	}
	u := &union{shortest: unreachable}
	c.nodes[key] = u
	c.measured = append(c.measured, u)
	flat, err := c.alternatives(all, nil)
	if err != nil {
		return nil, err
	}
	for _, f := range flat {
		if err := c.add(u, all, f); err != nil {
			return nil, err
		}
	}
	return u, u.bounded(all)
}

// bounded refuses a choice between too many alternatives.
func (u *union) bounded(all conjunction) error {
	open := 0
	for _, a := range u.alternatives {
		if _, fixed := a.(*literal); !fixed {
			open++
		}
	}
	if open > maxOpen { // anything at all, which is no place of the schema, is open to few
		return fmt.Errorf("schema at %s: %d alternatives have to be followed side by side, at most %d can be: write fewer, fixed texts as one enum, or a tool for each", all[0].at, open, maxOpen)
	}
	return nil
}

// add puts the nodes of one alternative into u.
func (c *compiler) add(u *union, all conjunction, f facets) error {
	if f.closed {
		return c.addEnum(u, all, f)
	}
	if f.kinds&kindNull != 0 {
		u.alternatives = append(u.alternatives, newLiteral("null"))
	}
	if f.kinds&kindBoolean != 0 {
		u.alternatives = append(u.alternatives, newLiteral("true", "false"))
	}
	if f.kinds&kindString != 0 && (f.maxLength < 0 || f.minLength <= f.maxLength) {
		if err := c.addString(u, all, f); err != nil {
			return err
		}
	}
	if f.kinds&(kindInteger|kindFraction) != 0 {
		if n := bounded(f); n.least() < unreachable {
			u.alternatives = append(u.alternatives, n)
		}
	}
	if f.kinds&kindArray != 0 {
		if err := c.addArray(u, f); err != nil {
			return err
		}
	}
	if f.kinds&kindObject != 0 {
		return c.addObject(u, all, f)
	}
	return nil
}

func (c *compiler) addString(u *union, all conjunction, f facets) error {
	switch len(f.patterns) {
	case 0:
		u.alternatives = append(u.alternatives, &text{fewest: f.minLength, most: f.maxLength})
		return nil
	case 1:
		p, err := newPattern(f.patterns[0], f.minLength, f.maxLength, c.spend)
		if errors.Is(err, errWork) {
			return err
		}
		if err != nil {
			return unsupported(all[0], "pattern", fmt.Sprintf("%q: %v", f.patterns[0], err))
		}
		if p.least() < unreachable {
			u.alternatives = append(u.alternatives, p)
		}
		return nil
	}
	return unsupported(all[0], "pattern", fmt.Sprintf("several for one text: %q", f.patterns))
}

// addEnum keeps the values that the whole conjunction accepts.
func (c *compiler) addEnum(u *union, all conjunction, f facets) error {
	var texts []string
	for _, v := range f.enum {
		ok, err := c.allowed(all, f, v)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		text := canonical(v)
		if err := c.vocabulary.spells(text); err != nil {
			return fmt.Errorf("schema at %s: %w", all[0].at, err)
		}
		if err := c.spend(byteWork * len(text)); err != nil {
			return err
		}
		texts = append(texts, text)
	}
	if len(texts) > 0 {
		u.alternatives = append(u.alternatives, newLiteral(sortedTexts(texts)...))
	}
	return nil
}

// allowed says whether the conjunction accepts a value that it lists.
func (c *compiler) allowed(all conjunction, f facets, value any) (bool, error) {
	if _, isText := value.(string); isText && len(all) == 1 && onlyLists(all[0]) {
		return f.kinds&kindString != 0, nil
	}
	if err := c.spend(len(all) * len(f.enum)); err != nil { // each is compared with each
		return false, err
	}
	return c.doc.valid(all, value)
}

// onlyLists says whether a subschema restricts strings by a list and by type alone.
func onlyLists(l located) bool {
	keywords, _ := l.value.(map[string]any)
	for keyword := range keywords {
		switch keyword {
		case "enum", "const", "type", "title", "description", "default", "examples", "$comment":
		default:
			return false
		}
	}
	return true
}

// bounded is the number node of f's bounds, rounded inwards to the digits that
// are written.
func bounded(f facets) *number {
	n := newNumber()
	if f.kinds&kindFraction == 0 {
		n = newInteger()
	}
	unit := new(big.Rat).SetInt64(power(n.scale))
	if f.low != nil {
		n.exponent = false
		n.low = max(n.low, -scaled(new(big.Rat).Neg(f.low), unit, f.lowOpen, -n.low))
	}
	if f.high != nil {
		n.exponent = false
		n.high = min(n.high, scaled(f.high, unit, f.highOpen, n.high))
	}
	return n
}

// scaled is the largest multiple of 1/unit that is at most bound (or below it),
// in units, kept within most and a little under -most.
func scaled(bound, unit *big.Rat, open bool, most int64) int64 {
	x := new(big.Rat).Mul(bound, unit)
	floor := new(big.Int).Div(x.Num(), x.Denom()) // Euclidean: rounds down, as the denominator is positive
	if open && x.IsInt() {
		floor.Sub(floor, big.NewInt(1))
	}
	switch {
	case floor.Cmp(big.NewInt(most)) > 0:
		return most
	case floor.Cmp(big.NewInt(-most)) < 0:
		return -most - 1 // no number is left
	}
	return floor.Int64()
}

func (c *compiler) addArray(u *union, f facets) error {
	a := &array{fewest: f.minItems, most: f.maxItems, shortest: unreachable}
	for _, p := range f.prefix {
		n, err := c.compile(p)
		if err != nil {
			return err
		}
		a.prefix = append(a.prefix, n)
	}
	if !f.noItems {
		n, err := c.compile(f.items)
		if err != nil {
			return err
		}
		a.items = n
	}
	if bound := a.bound(); bound >= 0 && bound < a.fewest {
		return nil // no such array
	}
	c.measured = append(c.measured, a)
	u.alternatives = append(u.alternatives, a)
	return nil
}

func (c *compiler) addObject(u *union, all conjunction, f facets) error {
	if n := len(f.members) + len(f.required); n > maxMembers {
		return fmt.Errorf("schema at %s: %d members are declared or required: at most %d", all[0].at, n, maxMembers)
	}
	var members []member
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		n, err := c.compile(f.members[name])
		if err != nil {
			return err
		}
		if err := c.vocabulary.spells(escapeKey(name)); err != nil {
			return fmt.Errorf("schema at %s: %w", all[0].at, err)
		}
		members = append(members, member{key: escapeKey(name), value: n, required: slices.Contains(f.required, name)})
	}
	var extra node
	if !f.noExtra {
		n, err := c.compile(f.extra)
		if err != nil {
			return err
		}
		extra = n
	}
	for _, name := range f.required {
		if _, declared := f.members[name]; declared {
			continue
		}
		if extra == nil {
			return nil // no such object
		}
		members = append(members, member{key: escapeKey(name), value: extra, required: true})
	}
	if f.minMembers > len(f.required) {
		return unsupported(all[0], "minProperties", "more members than are required by name")
	}
	if f.maxMembers >= 0 && f.maxMembers < len(f.required) {
		return nil // no such object
	}
	o := newObject(members, extra, f.maxMembers)
	o.shortest = unreachable
	c.measured = append(c.measured, o)
	u.alternatives = append(u.alternatives, o)
	return nil
}

func (u *union) size() int { return 1 + len(u.alternatives) }

func (u *union) remeasure() bool {
	before := u.shortest
	for _, a := range u.alternatives {
		u.shortest = min(u.shortest, a.least())
	}
	return u.shortest != before
}

func (a *array) size() int { return 1 + len(a.prefix) }

func (a *array) remeasure() bool {
	before := a.shortest
	a.shortest = min(a.shortest, 1+a.opened())
	return a.shortest != before
}

func (o *object) size() int { return 1 + len(o.members) }

func (o *object) remeasure() bool {
	before := o.shortest
	o.shortest = min(o.shortest, 1+o.opened(frame{}))
	return o.shortest != before
}
