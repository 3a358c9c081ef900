package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/gpu/grammar"
)

// FuzzSchema: whatever compiles gives texts that a validator accepts.
func FuzzSchema(f *testing.F) {
	for _, schema := range schemas() {
		f.Add(schema, uint64(1))
	}
	f.Add(`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"array","minItems":1000000000,"items":{"$ref":"#/$defs/a"}}}}`, uint64(2))
	v := vocabulary(f)
	f.Fuzz(func(t *testing.T, schema string, seed uint64) {
		g, err := grammar.New(v, grammar.Schema(json.RawMessage(schema)))
		if err != nil || g.Start().Least() > 2000 {
			return
		}
		valid := validator(t, schema)
		rng := rand.New(rand.NewPCG(seed, 1))
		text := random(t, g, rng, g.Start().Least()+rng.IntN(60))
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%q is no JSON: %v", text, err)
		}
		if err := valid.Validate(doc); err != nil {
			t.Fatalf("%s: %q: %v", schema, text, err)
		}
	})
}
