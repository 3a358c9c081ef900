package diff

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rules are the compiled path rules of one tool. They are immutable and safe for
// concurrent use; a nil *Rules compares everything exactly.
type Rules struct {
	patterns []pattern // least specific first
	root     *place
	regexes  []regexRule // the first that matches wins
	hasIDs   bool        // some rule is id
}

// place is a node of the trie of patterns. The patterns that match a path are
// found by walking it with a set of places, one step a token.
type place struct {
	literal map[string]*place
	star    *place // *
	deep    *place // **: entered without a token, and kept by any token
	isDeep  bool
	indexed bool // a literal child looks like an array index
	rule    *Rule
	rank    int // of rule: position in Rules.patterns
}

// pattern is a parsed pointer pattern.
type pattern struct {
	tokens         []string
	wild           []byte // per token: 0 literal, 1 *, 2 **
	deeps, stars   int
	layer          int // 0 for the rules of every tool, 1 for a tool's own
	text           string
	line           int
	rule           *Rule
	regex          *regexp.Regexp
	literalsLength int
}

// NewRules compiles rules. The most specific pattern wins, attribute by
// attribute: a pointer over a regex, then the one with fewer **, fewer *, more
// literal tokens, and literal tokens further to the left. Two rules that
// contradict each other without one being more specific are a *PolicyError.
func NewRules(rules ...PathRule) (*Rules, error) {
	patterns := make([]pattern, 0, len(rules))
	for i := range rules {
		p, err := parsePattern(rules[i].Pattern)
		if err != nil {
			return nil, err
		}
		rule := rules[i].Rule // a copy: rules are immutable
		p.rule = &rule
		patterns = append(patterns, p)
	}
	return compile(patterns)
}

// With is r with further rules, which win over those of the policy.
func (r *Rules) With(rules ...PathRule) (*Rules, error) {
	const aboveTools = 2
	var all []pattern
	if r != nil {
		all = slices.Clone(r.patterns)
	}
	for i := range rules {
		p, err := parsePattern(rules[i].Pattern)
		if err != nil {
			return nil, err
		}
		rule := rules[i].Rule
		p.layer, p.rule = aboveTools, &rule
		all = append(all, p)
	}
	return compile(all)
}

// Mask is r with the values under some patterns neither compared nor weighed:
// learned noise. How much weight that hides is Comparison.MaskedWeight.
func (r *Rules) Mask(patterns ...string) (*Rules, error) {
	const aboveTools = 2
	var all []pattern
	if r != nil {
		all = slices.Clone(r.patterns)
	}
	for _, text := range patterns {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		p.layer, p.rule = aboveTools, &Rule{masked: true}
		all = append(all, p)
	}
	return compile(all)
}

func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	if expression, ok := strings.CutPrefix(text, regexPrefix); ok {
		compiled, err := regexp.Compile(expression)
		if err != nil {
			return p, &PolicyError{Message: fmt.Sprintf("pattern %q: %v", text, err), Hint: "write an RE2 expression"}
		}
		p.regex = compiled
		return p, nil
	}
	pointer := text
	if text == "**" || strings.HasPrefix(text, "**/") {
		pointer = "/" + text
	}
	tokens, err := parsePointer(pointer)
	if err != nil {
		return p, &PolicyError{
			Message: fmt.Sprintf("bad pattern: %v", err),
			Hint:    `write a JSON Pointer such as "/items/*/price", or "regex:" and an expression`,
		}
	}
	p.tokens = tokens
	p.wild = make([]byte, len(tokens))
	for i, token := range tokens {
		switch token {
		case "*":
			p.wild[i] = 1
			p.stars++
		case "**":
			p.wild[i] = 2
			p.deeps++
		default:
			p.literalsLength++
		}
	}
	return p, nil
}

// moreSpecific orders patterns, the less specific first; 0 means neither is.
func moreSpecific(a, b pattern) int {
	if c := cmp.Or(
		cmp.Compare(a.layer, b.layer),
		cmp.Compare(boolInt(b.regex != nil), boolInt(a.regex != nil)),
		cmp.Compare(b.deeps, a.deeps),
		cmp.Compare(b.stars, a.stars),
		cmp.Compare(a.literalsLength, b.literalsLength),
	); c != 0 {
		return c
	}
	return slices.Compare(b.wild, a.wild)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compile sorts, checks and links patterns.
func compile(patterns []pattern) (*Rules, error) {
	for i := range patterns {
		if message, hint := patterns[i].rule.validate(); message != "" {
			return nil, &PolicyError{
				Line:    patterns[i].line,
				Message: fmt.Sprintf("pattern %q: %s", patterns[i].text, message), Hint: hint,
			}
		}
	}
	slices.SortStableFunc(patterns, moreSpecific)
	for i := range patterns {
		for j := i + 1; j < len(patterns) && moreSpecific(patterns[i], patterns[j]) == 0; j++ {
			if err := contradiction(patterns[i], patterns[j]); err != nil {
				return nil, err
			}
		}
	}
	r := &Rules{patterns: patterns, root: &place{}}
	for rank, p := range patterns {
		r.hasIDs = r.hasIDs || p.rule.Class == ID
		if p.regex != nil {
			r.regexes = append(r.regexes, regexRule{p.regex, p.rule, p.layer})
			continue
		}
		r.root.insert(p, p.rule, rank)
	}
	slices.SortStableFunc(r.regexes, func(a, b regexRule) int { return cmp.Compare(b.layer, a.layer) })
	return r, nil
}

// source lists the rules, least specific first.
func (r *Rules) source() []PathRule {
	out := make([]PathRule, 0, len(r.patterns))
	for _, p := range r.patterns {
		out = append(out, PathRule{p.text, *p.rule})
	}
	return out
}

// contradiction compares two patterns of which neither is more specific.
func contradiction(a, b pattern) error {
	same := a.text == b.text
	if a.regex != nil && !same || a.regex == nil && !overlap(a, b) {
		return nil
	}
	attribute := a.rule.contradicts(b.rule)
	if attribute == "" {
		return nil
	}
	first, second := a, b
	if first.line > second.line {
		first, second = second, first
	}
	at := ""
	if first.line > 0 {
		at = fmt.Sprintf(" (line %d)", first.line)
	}
	return &PolicyError{
		Line:    second.line,
		Message: fmt.Sprintf("pattern %q contradicts %q%s: both set %s", second.text, first.text, at, attribute),
		Hint:    "delete one, or make one more specific",
	}
}

// overlap reports whether some path matches both patterns.
func overlap(a, b pattern) bool {
	var match func(i, j int) bool
	match = func(i, j int) bool {
		switch {
		case i == len(a.tokens) && j == len(b.tokens):
			return true
		case i < len(a.tokens) && a.wild[i] == 2:
			return match(i+1, j) || j < len(b.tokens) && match(i, j+1)
		case j < len(b.tokens) && b.wild[j] == 2:
			return match(i, j+1) || i < len(a.tokens) && match(i+1, j)
		case i == len(a.tokens) || j == len(b.tokens):
			return false
		}
		return (a.wild[i] == 1 || b.wild[j] == 1 || a.tokens[i] == b.tokens[j]) && match(i+1, j+1)
	}
	return match(0, 0)
}

// insert adds a rule under a pattern; rules of the same pattern are joined.
func (n *place) insert(p pattern, rule *Rule, rank int) {
	for i, token := range p.tokens {
		switch p.wild[i] {
		case 1:
			if n.star == nil {
				n.star = &place{}
			}
			n = n.star
		case 2:
			if n.isDeep {
				continue
			}
			if n.deep == nil {
				n.deep = &place{isDeep: true}
			}
			n = n.deep
		default:
			if n.literal == nil {
				n.literal = map[string]*place{}
			}
			if n.literal[token] == nil {
				n.literal[token] = &place{}
			}
			if _, ok := arrayIndex(token); ok {
				n.indexed = true
			}
			n = n.literal[token]
		}
	}
	if n.rule != nil {
		rule = rule.over(n.rule)
	}
	n.rule, n.rank = rule, rank
}

// enter appends a place and those reached without a token.
func enter(set []*place, n *place) []*place {
	for ; n != nil; n = n.deep {
		if !slices.Contains(set, n) {
			set = append(set, n)
		}
	}
	return set
}

// step appends to dst the places reached from set by a token; nil stands for an
// array index that no literal names.
func step(dst, set []*place, token []byte) []*place {
	from := len(dst)
	for _, n := range set {
		fresh := dst[from:]
		if n.isDeep {
			fresh = enter(fresh, n)
		}
		if n.star != nil {
			fresh = enter(fresh, n.star)
		}
		if token != nil && n.literal != nil {
			fresh = enter(fresh, n.literal[string(token)])
		}
		dst = append(dst[:from], fresh...)
	}
	return dst
}
