package diff

import (
	"fmt"
	"slices"
	"strings"
)

// record notes a difference at the current path. weight is relative to the
// innermost array element until the array has been summed up.
func (c *comparer) record(kind Kind, x, y Value, rule *Rule, weight float64, cosmetic bool) {
	if c.scoring > 0 || c.silent > 0 {
		return
	}
	class := rule.Class
	if class == "" {
		class = Exact
	}
	if c.out.Differences == nil {
		c.out.Differences = make([]Difference, 0, 4) // most answers have few
	}
	c.out.Differences = append(c.out.Differences, Difference{
		Pattern:   string(c.patternText()),
		Pointer:   string(c.pointer()),
		Kind:      kind,
		Rehearsed: y.JSON(),
		Real:      x.JSON(),
		Class:     class,
		Weight:    weight,
		Cosmetic:  cosmetic,
	})
}

// pointer is the JSON Pointer of the current path, in c.buf.
func (c *comparer) pointer() []byte {
	c.buf = c.buf[:0]
	for _, step := range c.path {
		if step.name == nil {
			c.buf = appendIndex(c.buf, step.index)
			continue
		}
		c.buf = appendToken(c.buf, step.name)
	}
	return c.buf
}

// patternText is the pointer with * for indices and dynamic names, in c.buf.
func (c *comparer) patternText() []byte {
	c.buf = c.buf[:0]
	for _, step := range c.path {
		if step.name == nil || step.dynamic {
			c.buf = append(c.buf, '/', '*')
			continue
		}
		c.buf = appendToken(c.buf, step.name)
	}
	return c.buf
}

// Patch is the RFC 6902 patch that turns the real value into one that equals the
// rehearsed one under the rules. Elements of a multiset keep the real order.
func (c *Comparison) Patch() Patch {
	patch := make(Patch, 0, len(c.Differences))
	for _, d := range c.Differences {
		op := Op{Op: OpReplace, Path: d.Pointer, Value: d.Rehearsed, Old: d.Real}
		switch {
		case d.Real == nil:
			op.Op = OpAdd
		case d.Rehearsed == nil:
			op.Op = OpRemove
		}
		patch = append(patch, op)
	}
	// Elements are removed from the end, so that indices stay true.
	for from := 0; from < len(patch); {
		to := from + 1
		for to < len(patch) && patch[from].Op == OpRemove && patch[to].Op == OpRemove &&
			parent(patch[from].Path) == parent(patch[to].Path) {
			to++
		}
		slices.Reverse(patch[from:to])
		from = to
	}
	return patch
}

func parent(pointer string) string { return pointer[:max(0, strings.LastIndexByte(pointer, '/'))] }

// String explains a difference to people, in one line.
func (d Difference) String() string {
	at := d.Pointer
	if at == "" {
		at = "the whole answer"
	}
	text := fmt.Sprintf("%s: real %s, rehearsed %s", at, brief(d.Real), brief(d.Rehearsed))
	switch d.Kind {
	case Missing:
		text = fmt.Sprintf("%s: the rehearsal omits %s", at, brief(d.Real))
	case Extra:
		text = fmt.Sprintf("%s: the rehearsal invents %s", at, brief(d.Rehearsed))
	case Reordered:
		text = at + ": the same elements in another order"
	case Inconsistent:
		text += ", which stand for other ids in this episode"
	case TypeChanged:
		text += ", of another type"
	case Changed, AbsentNull:
	}
	if d.Class != Exact {
		text += fmt.Sprintf(" [%s]", d.Class)
	}
	if d.Cosmetic {
		text += " (cosmetic)"
	}
	return text
}

// brief shortens a JSON text for a line.
func brief(text []byte) string {
	const longest = 80
	if text == nil {
		return "nothing"
	}
	if len(text) <= longest {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:longest]), "") + "…"
}

// Explain is one line for every difference.
func (c *Comparison) Explain() string {
	var out strings.Builder
	for _, d := range c.Differences {
		out.WriteString(d.String())
		out.WriteByte('\n')
	}
	return out.String()
}
