package proof

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// schema is the part of JSON Schema 2020-12 that decides what arguments can be drawn.
type schema struct {
	Type        typeNames          `json:"type"`
	Enum        []any              `json:"enum"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	AnyOf       []*schema          `json:"anyOf"`
	Minimum     *float64           `json:"minimum"`
	Maximum     *float64           `json:"maximum"`
	MinItems    *int               `json:"minItems"`
	MaxItems    *int               `json:"maxItems"`
	Pattern     string             `json:"pattern"`
	Format      string             `json:"format"`
	Description string             `json:"description"`

	names []string // properties, sorted: draws must not depend on map order
	param int      // index of this schema among all leaves of the generator; set when compiled
}

// typeNames is a JSON Schema type: one name or several.
type typeNames []string

// UnmarshalJSON accepts "string" and ["string", "null"].
func (t *typeNames) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*t = typeNames{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(text, &many); err != nil {
		return fmt.Errorf("type %s: %w", text, err)
	}
	*t = many
	return nil
}

// kind is the schema's main type: what a valid value looks like.
func (s *schema) kind() string {
	for _, name := range s.Type {
		if name != "null" {
			return name
		}
	}
	if s.Properties != nil {
		return "object"
	}
	return ""
}

// variant is the first alternative that is more than null, or the schema itself.
func (s *schema) variant() *schema {
	for _, alternative := range s.AnyOf {
		if alternative.kind() != "" || len(alternative.Enum) > 0 {
			return alternative
		}
	}
	return s
}

// param is one argument (or one field of a nested argument) that values are drawn for.
type param struct {
	name  string
	words []string       // of the name
	hints []string       // words of the description: weaker evidence
	must  *regexp.Regexp // pattern that a value has to match; nil = any
	shape string         // shape of the description's example ("such as c-1004" gives c-9999), or ""
}

// parseSchema decodes a tool's input schema and registers its parameters.
func parseSchema(text []byte, register func(param) int) (*schema, error) {
	if len(text) == 0 {
		return &schema{Type: typeNames{"object"}}, nil
	}
	s := &schema{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	s.compile("", register)
	return s, nil
}

func (s *schema) compile(name string, register func(param) int) {
	s.param = register(newParam(name, s))
	for property := range s.Properties {
		s.names = append(s.names, property)
	}
	slices.Sort(s.names)
	for _, property := range s.names {
		s.Properties[property].compile(property, register)
	}
	if s.Items != nil {
		s.Items.compile(name, register)
	}
	for _, alternative := range s.AnyOf {
		if alternative.Description == "" {
			alternative.Description = s.Description
		}
		alternative.compile(name, register)
	}
}

func newParam(name string, s *schema) param {
	p := param{name: name, words: words(name), hints: words(s.Description)}
	if s.Pattern != "" {
		p.must, _ = regexp.Compile(s.Pattern) // a pattern that Go cannot read is left to the environment
	}
	if _, after, ok := strings.Cut(s.Description, "such as "); ok {
		example, _, _ := strings.Cut(after, " ")
		p.shape = shape(strings.Trim(example, ".,;()\"'`"))
	}
	return p
}

// words splits a name or text into lower-case singular words, without those
// that say nothing about what is meant.
func words(text string) []string {
	var found []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
		switch w {
		case "id", "ids", "the", "a", "of", "to", "new", "or", "and", "such", "as", "with", "if":
			continue
		}
		switch {
		case strings.HasSuffix(w, "ies"):
			w = strings.TrimSuffix(w, "ies") + "y"
		case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"):
			w = strings.TrimSuffix(w, "es")
		case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && len(w) > 3:
			w = strings.TrimSuffix(w, "s")
		}
		found = append(found, w)
	}
	return found
}

// shape abstracts an id: digits become 9 (runs of them one), letters stay.
func shape(id string) string {
	var b strings.Builder
	last := rune(0)
	for _, r := range id {
		if '0' <= r && r <= '9' {
			if last != '9' {
				b.WriteRune('9')
			}
			last = '9'
			continue
		}
		b.WriteRune(r)
		last = r
	}
	return b.String()
}
