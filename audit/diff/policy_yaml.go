package diff

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	yamlparser "github.com/goccy/go-yaml/parser"
)

// ParsePolicy reads a policy in YAML:
//
//	version: "3"
//	tools:
//	  "*":                                  # every tool
//	    /updated_at: volatile               # short for {rule: volatile}
//	  get_order:
//	    /order_id: key
//	    /total: {rule: number, abs: 0.01}
//	    /items: {array: keyed, fields: [item_id]}
//	    /items/*/note: {rule: text, equate: [absent, "null"]}
//	    "regex:(?i)time$": {rule: timestamp, tolerance: 5s}
//
// An unknown word, a bad pattern and two rules that contradict each other are a
// *PolicyError with the line and the nearest valid word.
func ParsePolicy(text []byte) (*Policy, error) {
	if err := CheckYAML(text); err != nil {
		return nil, yamlError(err)
	}
	file, err := yamlparser.ParseBytes(text, 0)
	if err != nil {
		return nil, yamlError(err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, &PolicyError{Message: "want one YAML document", Hint: `begin with version: "1"`}
	}
	y := policyReader{tools: map[string][]pattern{}}
	if err := y.root(file.Docs[0].Body); err != nil {
		return nil, err
	}
	return newPolicy(y.version, y.tools)
}

func yamlError(err error) error {
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.Token != nil {
		return &PolicyError{Line: syntax.Token.Position.Line, Message: syntax.Message, Hint: "write YAML"}
	}
	return &PolicyError{Message: err.Error(), Hint: "write YAML"}
}

// policyReader turns the syntax tree into patterns with their lines.
type policyReader struct {
	version string
	tools   map[string][]pattern
}

func lineOf(n ast.Node) int {
	if token := n.GetToken(); token != nil {
		return token.Position.Line
	}
	return 0
}

func fault(n ast.Node, hint, format string, args ...any) error {
	return &PolicyError{Line: lineOf(n), Message: fmt.Sprintf(format, args...), Hint: hint}
}

// entries lists the key-value pairs of a mapping.
func entries(n ast.Node, what string) ([]*ast.MappingValueNode, error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.NullNode:
		return nil, nil
	}
	return nil, fault(n, "write key: value lines", "%s must be a mapping", what)
}

// scalar is the text of a key or of a plain value.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.MappingKeyNode:
		return scalar(n.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func (y *policyReader) root(body ast.Node) error {
	pairs, err := entries(body, "a policy")
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		switch key, _ := scalar(pair.Key); key {
		case "version":
			version, ok := scalar(pair.Value)
			if !ok {
				return fault(pair.Value, `write version: "1"`, "version must be a label")
			}
			y.version = version
		case "tools":
			if err := y.allTools(pair.Value); err != nil {
				return err
			}
		default:
			return fault(pair.Key, nearestHint(key, []string{"version", "tools"}), "unknown key %q", key)
		}
	}
	return nil
}

func (y *policyReader) allTools(n ast.Node) error {
	tools, err := entries(n, "tools")
	if err != nil {
		return err
	}
	for _, tool := range tools {
		name, _ := scalar(tool.Key)
		paths, err := entries(tool.Value, fmt.Sprintf("the rules of tool %q", name))
		if err != nil {
			return err
		}
		for _, path := range paths {
			p, err := pathRule(path)
			if err != nil {
				return err
			}
			y.tools[name] = append(y.tools[name], p)
		}
	}
	return nil
}

// pathRule reads one line `pattern: rule`.
func pathRule(pair *ast.MappingValueNode) (pattern, error) {
	text, _ := scalar(pair.Key)
	p, err := parsePattern(text)
	if bad, ok := errors.AsType[*PolicyError](err); ok {
		bad.Line = lineOf(pair.Key)
		return p, bad
	}
	p.line = lineOf(pair.Key)
	p.rule = &Rule{}
	if class, ok := scalar(pair.Value); ok {
		p.rule.Class = Class(class)
		return p, located(p.rule, pair.Value, text)
	}
	attributes, err := entries(pair.Value, fmt.Sprintf("the rule of %q", text))
	if err != nil {
		return p, err
	}
	for _, attribute := range attributes {
		if err := p.rule.set(attribute); err != nil {
			return p, err
		}
	}
	return p, located(p.rule, pair.Key, text)
}

// located is what is wrong with a rule, with its line.
func located(r *Rule, n ast.Node, text string) error {
	if message, hint := r.validate(); message != "" {
		return fault(n, hint, "pattern %q: %s", text, message)
	}
	return nil
}

func ruleWords() []string {
	return []string{
		"rule", "abs", "rel", "tolerance", "array", "fields", "map", "equate", "presence", "coerce", "fold", "weight",
	}
}

// set reads one attribute of a rule. Its words are checked here, where the line
// is that of the attribute.
func (r *Rule) set(pair *ast.MappingValueNode) error {
	key, _ := scalar(pair.Key)
	text, isScalar := scalar(pair.Value)
	switch key {
	case "fields":
		return r.setFields(pair.Value)
	case "equate":
		return r.setEquate(pair.Value)
	}
	if !isScalar {
		if !slices.Contains(ruleWords(), key) {
			return fault(pair.Key, nearestHint(key, ruleWords()), "unknown key %q", key)
		}
		return fault(pair.Value, "write one value", "%s must be a single value", key)
	}
	var err error
	alone := Rule{}
	switch key {
	case "rule":
		r.Class, alone.Class = Class(text), Class(text)
	case "array":
		r.Array = ArrayMode(text)
		if r.Array != Keyed {
			alone.Array = r.Array
		}
	case "presence":
		r.Presence, alone.Presence = Presence(text), Presence(text)
	case "abs":
		r.Abs, err = strconv.ParseFloat(text, 64)
	case "rel":
		r.Rel, err = strconv.ParseFloat(text, 64)
	case "tolerance":
		r.Tolerance, err = time.ParseDuration(text)
	case "map":
		r.Map, err = strconv.ParseBool(text)
	case "coerce":
		r.Coerce, err = strconv.ParseBool(text)
	case "fold":
		r.Fold, err = strconv.ParseBool(text)
	case "weight":
		var weight float64
		weight, err = strconv.ParseFloat(text, 64)
		r.Weight = &weight
	default:
		return fault(pair.Key, nearestHint(key, ruleWords()), "unknown key %q", key)
	}
	if err != nil {
		return fault(pair.Value, "see the example of ParsePolicy", "%s: %v", key, err)
	}
	return located(&alone, pair.Value, key)
}

func (r *Rule) setFields(n ast.Node) error {
	words, err := scalars(n, "fields")
	r.Fields = words
	return err
}

// setEquate reads [absent, "null"] or a list of such pairs. YAML reads a bare
// null as nothing; it means the word here.
func (r *Rule) setEquate(n ast.Node) error {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok || len(sequence.Values) == 0 {
		return fault(n, "write equate: [absent, null]", "equate must be a pair or a list of pairs")
	}
	pairs := sequence.Values
	if _, nested := pairs[0].(*ast.SequenceNode); !nested {
		pairs = []ast.Node{n}
	}
	for _, pair := range pairs {
		words, err := scalars(pair, "equate")
		if err != nil {
			return err
		}
		if len(words) != 2 {
			return fault(pair, "write equate: [absent, null]", "equate takes two words, not %d", len(words))
		}
		equated := [2]Void{Void(words[0]), Void(words[1])}
		r.Equate = append(r.Equate, equated)
		if err := located(&Rule{Equate: [][2]Void{equated}}, pair, "equate"); err != nil {
			return err
		}
	}
	return nil
}

func scalars(n ast.Node, what string) ([]string, error) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, fault(n, "write "+what+": [a, b]", "%s must be a list", what)
	}
	words := make([]string, 0, len(sequence.Values))
	for _, value := range sequence.Values {
		word, ok := scalar(value)
		if !ok {
			return nil, fault(value, "write "+what+": [a, b]", "%s must be a list of words", what)
		}
		words = append(words, word)
	}
	return words, nil
}
