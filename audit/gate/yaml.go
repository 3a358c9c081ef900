package gate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"understudy/audit"
	"understudy/audit/diff"
)

// reader walks the syntax tree of a policy and collects every fault with its
// line, instead of stopping at the first.
type reader struct {
	faults []error
}

// fault records what is wrong at a node.
func (r *reader) fault(n ast.Node, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("line %d: %s", lineOf(n), fmt.Sprintf(format, args...)))
}

// err joins the faults into the one error that crosses to people.
func (r *reader) err() error {
	switch len(r.faults) {
	case 0:
		return nil
	case 1:
		return &audit.Error{Code: audit.CodeInvalid, Message: "gate policy", Hint: "correct the line that is named", Err: r.faults[0]}
	}
	return &audit.Error{
		Code: audit.CodeInvalid, Message: fmt.Sprintf("gate policy has %d faults", len(r.faults)),
		Hint: "correct the lines that are named", Err: errors.Join(r.faults...),
	}
}

// parseYAML returns the root of a single document.
func parseYAML(text []byte) (ast.Node, error) {
	const limit = 1 << 20 // a policy is written by hand
	if len(text) > limit {
		return nil, &audit.Error{Code: audit.CodeLimit, Message: fmt.Sprintf("gate policy of %d bytes", len(text)), Hint: "a policy may have 1 MiB"}
	}
	if err := diff.CheckYAML(text); err != nil {
		return nil, &audit.Error{Code: audit.CodeLimit, Message: "gate policy", Hint: "a policy is three levels deep", Err: err}
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.Token != nil {
			err = fmt.Errorf("line %d: %s", syntax.Token.Position.Line, syntax.Message)
		}
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "gate policy is not YAML", Hint: "correct the line that is named", Err: err}
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "gate policy is empty", Hint: "write one YAML document, or start from understudy gate init"}
	}
	return file.Docs[0].Body, nil
}

func lineOf(n ast.Node) int {
	if token := n.GetToken(); token != nil && token.Position != nil {
		return token.Position.Line
	}
	return 0
}

// field is one key of a mapping and how to read its value.
type field struct {
	name string
	read func(ast.Node)
}

// object reads a mapping with a closed list of keys.
func (r *reader) object(n ast.Node, what string, fields ...field) {
	r.each(n, what, func(key string, k, v ast.Node) {
		names := make([]string, len(fields))
		for i, f := range fields {
			if names[i] = f.name; f.name == key {
				f.read(v)
				return
			}
		}
		r.fault(k, "unknown key %q of %s; did you mean %q?", key, what, nearest(key, names))
	})
}

// each calls visit for every entry of a mapping; a repeated key is a fault.
func (r *reader) each(n ast.Node, what string, visit func(key string, k, v ast.Node)) {
	var entries []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		entries = n.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{n}
	default:
		r.fault(n, "%s must be a mapping of keys to values", what)
		return
	}
	seen := map[string]bool{}
	for _, e := range entries {
		key, ok := scalar(e.Key)
		switch {
		case !ok:
			r.fault(e, "a key of %s is not a plain word", what)
		case seen[key]:
			r.fault(e, "key %q of %s stands twice", key, what)
		default:
			seen[key] = true
			visit(key, e.Key, e.Value)
		}
	}
}

// list calls visit for every element of a sequence.
func (r *reader) list(n ast.Node, what string, visit func(ast.Node)) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fault(n, "%s must be a list", what)
		return
	}
	for _, v := range sequence.Values {
		visit(v)
	}
}

// scalar is the text of a plain or quoted scalar.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NanNode, *ast.InfinityNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// text reads a scalar that is not empty.
func (r *reader) text(n ast.Node, what string) string {
	s, ok := scalar(n)
	if !ok || strings.TrimSpace(s) == "" {
		r.fault(n, "%s must be a text that is not empty", what)
	}
	return s
}

// share reads a number in [0,1], also written in percent.
func (r *reader) share(n ast.Node, what string) float64 {
	s, _ := scalar(n)
	digits, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		x /= 100
	}
	if err != nil || math.IsNaN(x) || x < 0 || x > 1 {
		r.fault(n, "%s is %q; it must be a share between 0 and 1, or between 0%% and 100%%", what, s)
		return .5 // no second fault about the same value
	}
	return x
}

// whole reads an integer between low and high.
func (r *reader) whole(n ast.Node, what string, low, high int) int {
	s, _ := scalar(n)
	x, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || x < low || x > high {
		r.fault(n, "%s is %q; it must be a whole number from %d to %d", what, s, low, high)
		return low
	}
	return x
}

func (r *reader) flag(n ast.Node, what string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.fault(n, "%s must be true or false", what)
		return false
	}
	return b.Value
}

// date reads a day; what it dates ends with that day, in UTC.
func (r *reader) date(n ast.Node, what string) time.Time {
	s, _ := scalar(n)
	day, err := time.Parse(time.DateOnly, strings.TrimSpace(s))
	if err != nil {
		r.fault(n, "%s is %q; it must be a day such as 2026-12-31", what, s)
		return time.Time{}
	}
	return day.AddDate(0, 0, 1)
}

// word reads one of a closed list.
func word[T ~string](r *reader, n ast.Node, what string, valid ...T) T {
	s, _ := scalar(n)
	names := make([]string, len(valid))
	for i, v := range valid {
		if names[i] = string(v); names[i] == s {
			return v
		}
	}
	r.fault(n, "%s is %q; did you mean %q? (valid: %s)", what, s, nearest(s, names), strings.Join(names, ", "))
	return valid[0]
}

// nearest is the valid word with the fewest edits (Levenshtein), after the words
// that other tools use for ours.
func nearest(word string, valid []string) string {
	aliases := map[string]string{
		"optimism": "fsr", "false_success": "fsr", "false_success_rate": "fsr", "fidelity": "leaf_f1", "f1": "leaf_f1",
		"error_code": "error_family", "state_delta": "effect_f1", "pessimism": "false_error", "match": "exact",
		"exemptions": "waivers", "threshold": "max", "minimum": "min", "maximum": "max", "enforce": "critical",
	}
	if alias := aliases[word]; slices.Contains(valid, alias) {
		return alias
	}
	return diff.Nearest(word, valid, math.MaxInt-1)
}
