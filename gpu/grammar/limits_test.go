package grammar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"understudy/gpu/grammar"
)

// listed is n texts with a comma between.
func listed(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

// doubling is n definitions, each of which refers to the next one twice.
func doubling(n int, keyword string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, keyword, i+1, i+1)
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s,"d%d":{"type":"string"}}}`, strings.Join(parts, ","), n)
}

// Schemas are what clients send: the compiler refuses those that would keep it, or
// each token's mask, busy for minutes.
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	same := `{"type":"object","required":["a","b","c"],"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"$ref":"#"}}}`
	tests := []struct{ schema, names, reason string }{
		{doubling(40, "allOf"), "multiply", "references that double 40 times"},
		{doubling(40, "anyOf"), "256 alternatives", "choices that double 40 times"},
		{`{"oneOf":[` + strings.Repeat(same+",", 29) + same + `]}`, "alternative 0 and 1", "alternatives that are told apart by themselves"},
		{strings.Repeat(`{"items":`, 4000) + "true" + strings.Repeat("}", 4000), "100 levels", "deep nesting"},
		{strings.Repeat(`{"anyOf":[`, 4000) + "true" + strings.Repeat("]}", 4000), "100 levels", "deep choices"},
		{`{"enum":[` + listed(20000, `"v%d"`) + `]}`, "10000 values", "a huge list"},
		{`{"enum":[` + listed(9000, `%d`) + `]}`, "multiply", "a long list, whose values are compared with each other"},
		{`{"const":"` + strings.Repeat("x", 1<<20) + `"}`, "multiply", "a text of a megabyte"},
		{`{"type":"object","properties":{` + listed(2000, `"p%d":true`) + `}}`, "2000 members", "members that each byte of a key is compared with"},
		{`{"type":"object","required":[` + listed(2000, `"p%d"`) + `]}`, "2000 members", "the same, by name alone"},
		{`{"properties":{"` + strings.Repeat("k", 5000) + `":true}}`, "5000 bytes", "a name that each pointer repeats"},
		{`{"type":"number","minimum":1e999999}`, "out of range", "a number of a million digits"},
		{`{"type":"number","maximum":` + strings.Repeat("9", 5000) + `}`, "out of range", "digits written out"},
		{`{"multipleOf":1e-999999}`, "out of range", "a small number of a million digits"},
		{`{"anyOf":[` + listed(2000, `{"pattern":"x{1000}%d"}`) + `]}`, "bytes of patterns", "expressions that repeat"},
		{`{"pattern":"^(a|b|c|d|[a-z]{500})*x{500}$"}`, "multiply", "an automaton of large states"},
		{`{"prefixItems":[` + listed(500, `{"type":"string","pattern":"%d","minLength":100000}`) + `]}`, "multiply", "many long texts, each of which is measured"},
	}
	for _, test := range tests {
		_, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(test.schema)))
		if err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: %.200v; want it to name %q", test.reason, err, test.names)
		}
	}
	_, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(doubling(40, "allOf"))))
	if errors.Is(err, grammar.ErrUnsupported) {
		t.Errorf("%v: a tool would be called without its schema", err)
	}
}

// What is large, and meant, is compiled.
func TestLargeSchemas(t *testing.T) {
	t.Parallel()
	tests := []struct{ schema, reason string }{
		{`{"type":"string","enum":[` + listed(5000, `"v%d"`) + `]}`, "a catalogue"},
		{`{"type":"object","properties":{` + listed(900, `"p%d":{"type":"string"}`) + `},"additionalProperties":false}`, "a wide table's row"},
		{`{"oneOf":[` + listed(100, `{"type":"object","properties":{"kind":{"const":"k%d"},"n":{"type":"integer"}},"required":["kind"]}`) + `]}`, "a union of 100"},
		{`{"type":"object","properties":{` + listed(20, `"p%d":{"type":"string","pattern":"^[a-z0-9-]{1,63}$"}`) + `}}`, "names of a usual form"},
		{`{"type":"string","pattern":"^[ -~]{0,1000}$"}`, "a note of a thousand characters"},
		{strings.Repeat(`{"items":`, 90) + "true" + strings.Repeat("}", 90), "nesting"},
		{`{"type":"array","minItems":1000000000}`, "more items than any text holds: the request is refused, not the schema"},
	}
	for _, test := range tests {
		g, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(test.schema)))
		if err != nil {
			t.Errorf("%s: %.200v", test.reason, err)
			continue
		}
		if least := g.Start().Least(); least < 1 {
			t.Errorf("%s: %d bytes at least", test.reason, least)
		}
	}
}
