package audit

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"

	"understudy/audit/diff"
)

// ParseRules reads the envelope tables and defects (the form of RulesSpec) and
// the path policy (the form of diff.ParsePolicy), each in YAML; nil texts stand
// for the defaults. A wrong word is an *Error with the line and the nearest
// valid one.
//
//	version: "1"
//	tools:
//	  "*":
//	    codes: {OUT_OF_STOCK: precondition}
//	  search_flights:
//	    empty: [/results]
//	    fields: [{pointer: /status, failed: [declined], message: /why}]
//	defects:
//	  - {environment: retail, tool: modify_items, pointer: /items/*/price, note: the last item's price is written to all}
func ParseRules(rules, paths []byte, noise *Noise) (*Rules, error) {
	var spec RulesSpec
	if len(strings.TrimSpace(string(rules))) > 0 {
		err := diff.CheckYAML(rules)
		if err == nil {
			err = yaml.UnmarshalWithOptions(rules, &spec, yaml.Strict())
		}
		if err != nil {
			return nil, &Error{Code: CodeInvalid, Message: "rules", Hint: yamlHint(err), Err: err}
		}
	}
	var policy *diff.Policy
	if len(strings.TrimSpace(string(paths))) > 0 {
		var err error
		if policy, err = diff.ParsePolicy(paths); err != nil {
			return nil, &Error{Code: CodeInvalid, Message: "path policy", Hint: "correct the rule that is named", Err: err}
		}
	}
	return NewRules(spec, policy, noise)
}

// yamlHint names the nearest valid key for an unknown one.
func yamlHint(err error) string {
	valid := []string{
		"version", "format", "tools", "defects", "envelopes", "fields", "empty", "codes", "texts", "echo",
		"pointer", "failed", "code", "message", "match", "family", "environment", "versions", "tool", "note",
	}
	if m := regexp.MustCompile(`unknown field "([^"]*)"`).FindStringSubmatch(err.Error()); m != nil {
		return fmt.Sprintf("did you mean %q?", nearest(m[1], valid))
	}
	return "write YAML as the documentation of ParseRules shows it"
}

// nearest finds the valid word with the fewest edits, however many.
func nearest(word string, valid []string) string { return diff.Nearest(word, valid, math.MaxInt-1) }
