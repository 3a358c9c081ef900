package diff

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AnyTool keys the rules that hold for every tool; a tool's own rules are more
// specific.
const AnyTool = "*"

// Policy says for every tool how answers are compared. It is immutable and safe
// for concurrent use; a nil *Policy compares everything exactly.
type Policy struct {
	version string
	tools   map[string]*Rules
	digest  [32]byte
}

// PolicyError says what is wrong with a policy, where, and what to write instead.
type PolicyError struct {
	Line    int // in the YAML text; 0 = built in Go
	Message string
	Hint    string
}

// Error is the message with its line and hint.
func (e *PolicyError) Error() string {
	text := "policy: " + e.Message
	if e.Line > 0 {
		text = fmt.Sprintf("policy line %d: %s", e.Line, e.Message)
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// NewPolicy compiles the rules of each tool. The error is a *PolicyError.
func NewPolicy(version string, tools map[string][]PathRule) (*Policy, error) {
	parsed := make(map[string][]pattern, len(tools))
	for tool, rules := range tools {
		for i := range rules {
			p, err := parsePattern(rules[i].Pattern)
			if err != nil {
				return nil, err
			}
			rule := rules[i].Rule
			p.rule = &rule
			parsed[tool] = append(parsed[tool], p)
		}
	}
	return newPolicy(version, parsed)
}

func newPolicy(version string, tools map[string][]pattern) (*Policy, error) {
	if version == "" {
		return nil, &PolicyError{Message: "a policy needs a version", Hint: `write version: "1"`}
	}
	p := &Policy{version: version, tools: map[string]*Rules{}}
	own := make(map[string][]PathRule, len(tools))
	for tool, patterns := range tools {
		alone, err := compile(slices.Clone(patterns))
		if err != nil {
			return nil, err
		}
		own[tool] = alone.source()
		p.tools[tool] = alone
		if tool == AnyTool {
			continue
		}
		all := slices.Clone(tools[AnyTool])
		for _, pattern := range patterns {
			pattern.layer = 1
			all = append(all, pattern)
		}
		if p.tools[tool], err = compile(all); err != nil {
			return nil, err
		}
	}
	return p, p.seal(own)
}

// seal computes the digest: of the version and every rule, in canonical order.
func (p *Policy) seal(own map[string][]PathRule) error {
	type section struct {
		Tool  string     `json:"tool"`
		Rules []PathRule `json:"rules"`
	}
	content := struct {
		Version string    `json:"version"`
		Tools   []section `json:"tools"`
	}{Version: p.version}
	for _, tool := range slices.Sorted(maps.Keys(own)) {
		rules := slices.Clone(own[tool])
		// Pointers take effect by specificity, regexes in the order of writing.
		slices.SortStableFunc(rules, func(a, b PathRule) int {
			regexA, regexB := strings.HasPrefix(a.Pattern, regexPrefix), strings.HasPrefix(b.Pattern, regexPrefix)
			if regexA || regexB {
				return cmp.Compare(boolInt(regexA), boolInt(regexB))
			}
			return cmp.Compare(a.Pattern, b.Pattern)
		})
		content.Tools = append(content.Tools, section{tool, rules})
	}
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("digest of policy %s: %w", p.version, err)
	}
	p.digest = sha256.Sum256(text)
	return nil
}

// For is the rules of a tool: a tool without rules of its own gets those of
// AnyTool, or exact comparison.
func (p *Policy) For(tool string) *Rules {
	if p == nil {
		return nil
	}
	if r, ok := p.tools[tool]; ok {
		return r
	}
	return p.tools[AnyTool]
}

// Version is the policy's label for people.
func (p *Policy) Version() string {
	if p == nil {
		return ""
	}
	return p.version
}

// Digest identifies the policy's content; verdicts name it. It is zero for a nil
// policy.
func (p *Policy) Digest() [32]byte {
	if p == nil {
		return [32]byte{}
	}
	return p.digest
}
