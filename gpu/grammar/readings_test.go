package grammar_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"understudy/gpu/grammar"
)

// Choices within choices multiply the readings of a text. What would leave too many is
// refused.
func TestReadingsAreBounded(t *testing.T) {
	t.Parallel()
	const each = 40
	choice := func(format string) string {
		var list []string
		for i := range each {
			list = append(list, fmt.Sprintf(format, i))
		}
		return `{"anyOf":[` + strings.Join(list, ",") + `]}`
	}
	schema := `{"$defs":{"inner":` + choice(`{"type":"object","properties":{"k%d":{"type":"integer"}}}`) + `},"anyOf":[{"type":"null"},` +
		choice(`{"type":"array","items":{"$ref":"#/$defs/inner"},"minItems":1,"maxItems":1%d}`) + `]}`
	g, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(schema)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := g.Start().Write([]byte(`[`)); ok {
		t.Error("1,600 readings are followed")
	}
	if s, ok := g.Start().Write([]byte(`null`)); !ok || !s.Final() {
		t.Error("null is refused")
	}
}
