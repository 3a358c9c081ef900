package grammar_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/gpu/grammar"
)

// tokens is a small vocabulary: all bytes, and pieces that span structure and
// parts of characters. The last id is special: it has no bytes.
func tokens() [][]byte {
	var out [][]byte
	for b := range 256 {
		out = append(out, []byte{byte(b)})
	}
	for _, piece := range []string{
		`{"`, `"}`, `":`, `": `, `","`, `", "`, `"},{"`, `"]`, `[{"`, `}}`, `]]`, `[]`, `{}`, `""`, `" `, `, `, `: `, `:"`, `:{"`, `\"`, `\u`, `\uD8`, `\ud83d\ude00`,
		"name", "na", "id", "kind", "cat", "dog", "true", "rue", "fal", "null", "nul", "12", "123", "-1", "0.5", "1e", "99", "000", ".0",
		"\xc3", "\xc3\xa9", "\xe2\x82", "\xac", "\xf0\x9f", "\x98\x80", "é\"", "aé", "<tool", "_call>", "<tool_call>", "</tool_call>", "\n{\"", "}\n", "hello", " wor",
		`{"name": "`, `", "arguments": {`, `}}` + "\n</",
	} {
		out = append(out, []byte(piece))
	}
	return append(out, nil)
}

func vocabulary(tb testing.TB) *grammar.Vocabulary {
	tb.Helper()
	v, err := grammar.NewVocabulary(tokens())
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func rounds(n int) int {
	if raceEnabled {
		return max(n/8, 1)
	}
	return n
}

// schemas are what the properties are tried on.
func schemas() map[string]string {
	return map[string]string{
		"anything":           `true`,
		"object":             `{"type":"object"}`,
		"members":            `{"type":"object","properties":{"name":{"type":"string"},"id":{"type":"integer"},"n":{"type":"null"}},"required":["id"],"additionalProperties":false}`,
		"open members":       `{"type":"object","properties":{"name":{"type":"string"},"né":{"type":"integer"}},"required":["né"],"additionalProperties":{"type":"boolean"}}`,
		"required and free":  `{"type":"object","required":["x","a\"b"],"maxProperties":3}`,
		"exactly required":   `{"type":"object","properties":{"a":true,"b":{"type":"integer"}},"required":["b"],"maxProperties":1}`,
		"array bounds":       `{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":4}`,
		"tuple":              `{"type":"array","prefixItems":[{"type":"string"},{"type":"boolean"}],"items":{"type":"null"},"minItems":1}`,
		"closed tuple":       `{"type":"array","prefixItems":[{"type":"string"},{"type":"boolean"}],"items":false}`,
		"lengths":            `{"type":"string","minLength":3,"maxLength":5}`,
		"long":               `{"type":"string","maxLength":60}`,
		"pattern":            `{"type":"string","pattern":"^#W[0-9]{4,6}$"}`,
		"pattern within":     `{"type":"string","pattern":"a(b|cd)+$","minLength":6,"maxLength":9}`,
		"pattern at first":   `{"type":"string","pattern":"^(ab|ba)","maxLength":12}`,
		"pattern words":      `{"type":"string","pattern":"^[a-z]+( [a-z]+)*$"}`,
		"enum":               `{"enum":["cat","dog",1,12,null,{"b":1,"a":[true]}]}`,
		"enum of type":       `{"type":"string","enum":["cat",5,"catalogue"],"minLength":4}`,
		"const":              `{"const":{"a":"<é>"}}`,
		"integer range":      `{"type":"integer","minimum":-12,"exclusiveMaximum":105}`,
		"narrow range":       `{"type":"integer","minimum":7345,"maximum":7346}`,
		"large":              `{"type":"integer","minimum":100000000000}`,
		"number range":       `{"type":"number","exclusiveMinimum":0.25,"maximum":1}`,
		"negative number":    `{"type":"number","maximum":-3.5,"minimum":-4}`,
		"types":              `{"type":["integer","null","string"],"maxLength":2,"minimum":10,"maximum":20}`,
		"any of":             `{"anyOf":[{"type":"object","properties":{"kind":{"const":"cat"},"lives":{"type":"integer"}},"required":["kind","lives"]},{"type":"array","items":{"type":"string"}}]}`,
		"one of":             `{"oneOf":[{"type":"object","properties":{"kind":{"const":"cat"}},"required":["kind"]},{"type":"object","properties":{"kind":{"enum":["dog"]},"id":{"type":"integer"}},"required":["kind","id"]}]}`,
		"all of":             `{"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"required":["a"]},{"properties":{"a":{"maximum":5},"b":{"type":"string"}},"required":["b"],"additionalProperties":false}]}`,
		"any of with base":   `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"anyOf":[{"required":["a"]},{"required":["b"]}],"additionalProperties":false}`,
		"recursive":          `{"$defs":{"tree":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}},"v":{"type":"integer"}},"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/tree"}`,
		"linked list":        `{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"],"additionalProperties":false}`,
		"impossible option":  `{"type":"object","properties":{"a":false,"b":{"type":"boolean"}},"additionalProperties":false}`,
		"ignored and titled": `{"type":"string","format":"date","title":"a day","x-order":3}`,
	}
}

// random samples uniformly from the mask until the end, like a model without
// sense and with limit tokens.
func random(tb testing.TB, g *grammar.Grammar, rng *rand.Rand, limit int) string {
	tb.Helper()
	all := tokens()
	state, mask := g.Start(), grammar.NewMask(len(all))
	var text []byte
	for left := limit; ; left-- {
		if state.Final() || state.Complete() && rng.IntN(4) == 0 {
			return string(text)
		}
		if left == 0 {
			if !state.Complete() {
				tb.Fatalf("after %d tokens: %q is not complete", limit, text)
			}
			return string(text)
		}
		state.Mask(mask, left-1)
		var ids []int
		for id := range all {
			if mask.Allows(id) {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			if state.Complete() {
				return string(text)
			}
			tb.Fatalf("after %q with %d left (needs %d): nothing may follow", text, left, state.Least())
		}
		id := ids[rng.IntN(len(ids))]
		next, ok := state.Write(all[id])
		if !ok {
			tb.Fatalf("after %q the mask allows %q, Write does not", text, all[id])
		}
		state, text = next, append(text, all[id]...)
	}
}

func validator(tb testing.TB, schema string) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", doc); err != nil {
		tb.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestRandomTextsAreValid(t *testing.T) {
	t.Parallel()
	for name, schema := range schemas() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(schema)))
			if err != nil {
				t.Fatal(err)
			}
			valid := validator(t, schema)
			rng := rand.New(rand.NewPCG(1, 2))
			seen := map[string]bool{}
			for range rounds(150) {
				least := g.Start().Least()
				text := random(t, g, rng, least+rng.IntN(80))
				seen[text] = true
				doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
				if err != nil || !utf8.ValidString(text) {
					t.Fatalf("%q is no JSON: %v", text, err)
				}
				if err := valid.Validate(doc); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
			}
			t.Logf("%d different texts", len(seen))
		})
	}
}

// The mask, with all that it remembers, is exactly the tokens that Write takes
// and after which the rest fits.
func TestMaskIsExact(t *testing.T) {
	t.Parallel()
	all := tokens()
	for name, schema := range schemas() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(schema)))
			if err != nil {
				t.Fatal(err)
			}
			rng, mask := rand.New(rand.NewPCG(3, 4)), grammar.NewMask(len(all))
			for range rounds(8) {
				state := g.Start()
				var text []byte
				for range 40 {
					limit := state.Least() + rng.IntN(12) - 1
					state.Mask(mask, limit)
					var ids []int
					for id, token := range all {
						next, ok := state.Write(token)
						ok = ok && len(token) > 0
						if ok {
							ids = append(ids, id)
						}
						if want := ok && next.Least() <= limit; mask.Allows(id) != want {
							t.Fatalf("after %q, limit %d (least %d): mask of %q is %v, want %v (least then %d)",
								text, limit, state.Least(), token, !want, want, next.Least())
						}
					}
					if len(ids) == 0 {
						break
					}
					token := all[ids[rng.IntN(len(ids))]]
					state, _ = state.Write(token)
					text = append(text, token...)
				}
			}
		})
	}
}

// Least is never wrong: some byte always brings the end one byte nearer.
func TestLeastIsReached(t *testing.T) {
	t.Parallel()
	all := tokens()
	for name, schema := range schemas() {
		g, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(schema)))
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(5, 6))
		for range rounds(20) {
			state := g.Start()
			for range rng.IntN(30) {
				if next, ok := state.Write(all[rng.IntN(256)]); ok {
					state = next
				}
			}
			for state.Least() > 0 {
				nearer := false
				for b := range 256 {
					if next, ok := state.Write(all[b]); ok && next.Least() == state.Least()-1 {
						state, nearer = next, true
						break
					}
				}
				if !nearer {
					t.Fatalf("%s: least %d, but no byte brings it nearer", name, state.Least())
				}
			}
			if !state.Complete() {
				t.Fatalf("%s: least is 0 and the text is not complete", name)
			}
		}
	}
}

func TestAccepts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		schema, text string
		want         bool
		reason       string
	}{
		{"open members", `{"né": 5, "x":true}`, true, "members in any order, a space after colon and comma"},
		{"open members", `{"n":true,"né":-1}`, true, "a prefix of a declared key is another key"},
		{"open members", `{"nè":true,"né":-1}`, true, "a key that leaves a declared one within a character"},
		{"open members", `{"né":1,"né":2}`, false, "a declared key twice"},
		{"open members", `{"n\u00e9":true}`, false, "an escape would hide a declared key"},
		{"open members", `{"name":true}`, false, "a declared key with another one's type"},
		{"open members", `{"x":true}`, false, "a required member is missing"},
		{"required and free", `{"x":1,"a\"b":null,"z":[]}`, true, "a declared key that needs an escape"},
		{"required and free", `{"x":1,"y":2,"z":3}`, false, "no room for a required one"},
		{"lengths", `"éé€"`, true, "characters count, not bytes"},
		{"lengths", `"\ud83d\ude00ab"`, true, "a surrogate pair is one character"},
		{"lengths", `"\ud83dab"`, false, "half a pair is none"},
		{"lengths", `"ab"`, false, "too short"},
		{"lengths", "\"ab\xff\"", false, "no UTF-8"},
		{"lengths", "\"ab\xed\xa0\x80\"", false, "an encoded surrogate"},
		{"lengths", "\"ab\n\"", false, "a control character"},
		{"integer range", `-12`, true, "the bound itself"},
		{"integer range", `-13`, false, "below it"},
		{"integer range", `105`, false, "an exclusive bound"},
		{"integer range", `012`, false, "a leading zero"},
		{"integer range", `1.5`, false, "a fraction"},
		{"number range", `0.250001`, true, "just above an exclusive bound"},
		{"number range", `0.25`, false, "the exclusive bound"},
		{"number range", `1.0`, true, "the inclusive one"},
		{"anything", `[1.5e-3,2E+10,{"a": {"b":[]}}]`, true, "exponents and nesting"},
		{"anything", `1e`, false, "an exponent without digits"},
		{"enum", `12`, true, "a value that has another as its prefix"},
		{"enum of type", `"cat"`, false, "an enum value that another keyword refuses"},
		{"enum of type", `"catalogue"`, true, "one that it allows"},
		{"recursive", `{"v":1,"kids":[{"v":2,"kids":[]}]}`, true, "a reference to itself"},
		{"pattern", `"#W12345"`, true, "the whole text"},
		{"pattern", `"#W123"`, false, "too few digits"},
		{"pattern within", `"xxabcd"`, true, "a match at the end"},
		{"pattern within", `"abcdx"`, false, "a match that does not end the text"},
		{"pattern at first", `"ba, whatever"`, true, "anything after a match"},
		{"closed tuple", `["a",true,1]`, false, "an item too many"},
		{"one of", `{"kind":"dog"}`, false, "the alternative's own required member"},
	}
	for _, test := range tests {
		g, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(schemas()[test.schema])))
		if err != nil {
			t.Fatal(err)
		}
		state, ok := g.Start().Write([]byte(test.text))
		if got := ok && state.Complete(); got != test.want {
			t.Errorf("%s: %s accepted %v: %s", test.schema, test.text, got, test.reason)
		}
	}
}

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

func calls(required, once bool) grammar.Calls {
	return grammar.Calls{
		Before: "<tool_call>\n", After: "\n</tool_call>", Between: "\n", Trigger: "<tool_call>",
		Tools: []grammar.Call{
			{Name: "get", Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}`)},
			{Name: "list"},
		},
		Required: required, Once: once,
	}
}

func TestToolCalls(t *testing.T) {
	t.Parallel()
	one := "<tool_call>\n" + `{"name": "get", "arguments": {"id": 5}}` + "\n</tool_call>"
	tests := []struct {
		calls  grammar.Calls
		text   string
		want   bool
		reason string
	}{
		{calls(false, false), "Hello, é <tool> you.", true, "no call is an answer, too"},
		{calls(false, false), "I look. " + one + " and " + one, true, "several calls in text"},
		{calls(false, false), "<<tool_call" + one, true, "a trigger after its own prefix"},
		{calls(false, true), one + one, false, "one call is all"},
		{calls(false, false), `<tool_call>` + "\n" + `{"name": "put", "arguments": {}}` + "\n</tool_call>", false, "an unknown tool"},
		{calls(false, false), `<tool_call>` + "\n" + `{"name": "get", "arguments": {"id": "5"}}` + "\n</tool_call>", false, "a wrong argument"},
		{calls(false, false), "half <tool_call>", false, "a call that is not finished"},
		{calls(true, false), "Hello", false, "a call is required"},
		{calls(true, false), one + "\n" + one, true, "and may be followed by another"},
		{calls(true, true), one + "\n" + one, false, "but not when one is all"},
		{calls(false, false), "cut \xc3", false, "half a character at the end"},
	}
	for _, test := range tests {
		g, err := grammar.New(vocabulary(t), grammar.Tools(test.calls))
		if err != nil {
			t.Fatal(err)
		}
		state, ok := g.Start().Write([]byte(test.text))
		if got := ok && state.Complete(); got != test.want {
			t.Errorf("%q accepted %v: %s", test.text, got, test.reason)
		}
	}
	g, err := grammar.New(vocabulary(t), grammar.Tools(calls(true, false)))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range rounds(50) {
		text := random(t, g, rng, g.Start().Least()+rng.IntN(100))
		if !strings.HasPrefix(text, "<tool_call>\n{") || !strings.HasSuffix(text, "}\n</tool_call>") {
			t.Fatalf("%q", text)
		}
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	g, err := grammar.New(vocabulary(t), grammar.Literal("<execution_result>"), grammar.JSON(), grammar.Literal("</execution_result>"))
	if err != nil {
		t.Fatal(err)
	}
	state, ok := g.Start().Write([]byte(`<execution_result>12</execution_result>`))
	if !ok || !state.Final() {
		t.Errorf("a number, which ends only with what follows: %v %v", ok, state.Final())
	}
}
