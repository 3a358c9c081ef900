package grammar_test

import (
	"encoding/json"
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
