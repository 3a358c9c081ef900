package grammar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"understudy/gpu/grammar"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		schema, names string
		unsupported   bool
		reason        string
	}{
		{`{"properties":{"a":{"not":{}}}}`, `#/properties/a: keyword "not"`, true, "a keyword that cannot be kept"},
		{`{"type":"array","uniqueItems":true}`, "uniqueItems", true, "what needs memory of all items"},
		{`{"type":"integer","multipleOf":3}`, "multipleOf", true, "arithmetic"},
		{`{"oneOf":[{"type":"integer"},{"type":"number"}]}`, "alternative 0 and 1", true, "alternatives that overlap"},
		{`{"$ref":"file:///etc/passwd"}`, "outside the schema", false, "no file is read"},
		{`{"$ref":"#/$defs/none"}`, "none", false, "a reference to nothing"},
		{`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, "refers to itself", false, "a circle without content"},
		{`{"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]}`, "no finite value", false, "an endless value"},
		{`{"type":"string","pattern":"(?=x)y"}`, `keyword "pattern"`, true, "an expression with a look-ahead"},
		{`{"type":"string","pattern":"\\bx"}`, `\b`, true, "a word's border"},
		{`{"type":"string","pattern":"^abc$","maxLength":2}`, "no finite value", false, "a pattern that is longer than allowed"},
		{`{"type":"string","enum":[1]}`, "no finite value", false, "nothing satisfies it"},
		{`{"type":"strnig"}`, "type", false, "no JSON Schema"},
		{`{"type":`, "no JSON", false, "no JSON"},
		{`{"anyOf":[` + strings.Repeat(`{"type":"object","minProperties":0},`, 128) + `{"type":"object"}]}`, "129 alternatives", false, "readings that nothing tells apart for long"},
		{`{"type":"object","minProperties":2}`, "minProperties", true, "members that have no names"},
	}
	for _, test := range tests {
		_, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(test.schema)))
		if err == nil || !strings.Contains(err.Error(), test.names) || errors.Is(err, grammar.ErrUnsupported) != test.unsupported {
			t.Errorf("%s: %v; want it to name %s (unsupported %v): %s", test.schema, err, test.names, test.unsupported, test.reason)
		}
	}
	if _, err := grammar.NewVocabulary(tokens()[0x21:]); err == nil || !strings.Contains(err.Error(), "0x20") {
		t.Errorf("a vocabulary without a byte: %v", err)
	}
}

// Some vocabularies lack control characters; only what needs them is refused.
func TestVocabularyThatLacksBytes(t *testing.T) {
	t.Parallel()
	all := tokens()
	all[1], all[0xF1] = nil, nil
	v, err := grammar.NewVocabulary(all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := grammar.New(v, grammar.Object()); err != nil {
		t.Error(err)
	}
	for _, part := range []grammar.Part{grammar.Literal("\x01"), grammar.Schema(json.RawMessage(`{"const":"\ud8ff\udfff"}`))} {
		if _, err := grammar.New(v, part); err == nil || !strings.Contains(err.Error(), "cannot be written") {
			t.Errorf("a text that has no tokens: %v", err)
		}
	}
}

func TestIgnoredIsSaid(t *testing.T) {
	t.Parallel()
	g, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(`{"properties":{"d":{"type":"string","format":"date"}}}`)))
	if err != nil || fmt.Sprint(g.Ignored()) != "[#/properties/d/format]" {
		t.Errorf("%v, %v", g.Ignored(), err)
	}
}
