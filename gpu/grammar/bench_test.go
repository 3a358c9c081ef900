package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"understudy/gpu/grammar"
)

// BenchmarkMask is one mask of a vocabulary of SmolLM2's size within a schema's
// texts, in steady state, beside one that remembers nothing.
func BenchmarkMask(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	all := tokens()
	seen := map[string]bool{}
	for len(all) < 49_152 {
		n := 2 + rng.IntN(7)
		piece := make([]byte, n)
		for i := range piece {
			piece[i] = " etaoinshrdlucmfwypvbgkjqxz0123456789\",:{}[]"[min(rng.IntN(44), rng.IntN(44))]
		}
		if !seen[string(piece)] {
			seen[string(piece)] = true
			all = append(all, piece)
		}
	}
	v, err := grammar.NewVocabulary(all)
	if err != nil {
		b.Fatal(err)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string","maxLength":30}},"id":{"type":"integer"},"more":true},"required":["name","id"]}`)
	compile := func() *grammar.Grammar {
		g, err := grammar.New(v, grammar.Schema(schema))
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
	var states []grammar.State
	g, mask := compile(), grammar.NewMask(len(all))
	for _, text := range []string{``, `{"na`, `{"name":`, `{"name": "some text`, `{"name":"a","tags":["b","cde`, `{"id":12`, `{"more":[{"x":`, `{"other":"`} {
		s, ok := g.Start().Write([]byte(text))
		if !ok {
			b.Fatal(text)
		}
		states = append(states, s)
	}
	b.Run("warm", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			states[i%len(states)].Mask(mask, 1000)
		}
	})
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			s, _ := compile().Start().Write([]byte(`{"name": "some text`))
			s.Mask(mask, 1000)
		}
	})
}
