package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// resource is the name under which a schema is compiled by the library.
const resource = "schema:///"

// document is a schema that is valid as a schema, addressed by JSON pointers.
type document struct {
	root any
	lib  *jsonschema.Compiler
}

// located is a subschema and its pointer, which names it in errors and memos.
type located struct {
	at    string
	value any
}

// conjunction is subschemas that all hold; none = anything.
type conjunction []located

func (c conjunction) key() string {
	pointers := make([]string, len(c))
	for i, l := range c {
		pointers[i] = l.at
	}
	slices.Sort(pointers)
	return strings.Join(slices.Compact(pointers), "&")
}

// and is both, without the same subschema twice.
func (c conjunction) and(others ...located) conjunction {
	out := slices.Clone(c)
	for _, o := range others {
		if !slices.ContainsFunc(out, func(l located) bool { return l.at == o.at }) {
			out = append(out, o)
		}
	}
	return out
}

// noLoader keeps references within the document: a schema must not read files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside the schema", url)
}

// compileRegexp takes every expression: those that Go does not know are refused by
// newPattern, which can say where.
func compileRegexp(expression string) (jsonschema.Regexp, error) {
	if r, err := regexp.Compile(expression); err == nil {
		return r, nil
	}
	return unknownRegexp(expression), nil
}

type unknownRegexp string

// MatchString implements jsonschema.Regexp.
func (unknownRegexp) MatchString(string) bool { return false }

// String implements jsonschema.Regexp.
func (u unknownRegexp) String() string { return string(u) }

func parseSchema(raw []byte) (*document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema is no JSON: %w", err)
	}
	if err := checkSize(root); err != nil {
		return nil, err
	}
	lib := jsonschema.NewCompiler()
	lib.UseLoader(noLoader{})
	lib.UseRegexpEngine(compileRegexp)
	if err := lib.AddResource(resource, root); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if _, err := lib.Compile(resource); err != nil {
		return nil, fmt.Errorf("schema: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return &document{root: root, lib: lib}, nil
}

// resolve finds what a $ref points to.
func (d *document) resolve(from located, ref string) (located, error) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return located{}, unsupported(from, "$ref", fmt.Sprintf("%q: only pointers into the schema itself, such as #/$defs/name", ref))
	}
	value := d.root
	if pointer != "" {
		for part := range strings.SplitSeq(pointer[1:], "/") {
			part = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%20", " ").Replace(part)
			next, ok := child(value, part)
			if !ok {
				return located{}, fmt.Errorf("schema at %s: $ref %q points nowhere", from.at, ref)
			}
			value = next
		}
	}
	return located{at: "#" + pointer, value: value}, nil
}

func child(value any, part string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		next, ok := v[part]
		return next, ok
	case []any:
		i, err := strconv.Atoi(part)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}

func (l located) child(parts ...string) located {
	out := l
	for _, part := range parts {
		out.value, _ = child(out.value, part)
		out.at += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
	}
	return out
}

// valid says whether value is one that all of c allow.
func (d *document) valid(c conjunction, value any) (bool, error) {
	for _, l := range c {
		if b, ok := l.value.(bool); ok {
			if !b {
				return false, nil
			}
			continue
		}
		schema, err := d.lib.Compile(resource + strings.ReplaceAll(strings.ReplaceAll(l.at, "%", "%25"), " ", "%20"))
		if err != nil {
			return false, fmt.Errorf("schema at %s: %w", l.at, err)
		}
		if fault := schema.Validate(value); fault != nil {
			return false, nil //nolint:nilerr // a refused value is the answer
		}
	}
	return true, nil
}

func unsupported(l located, keyword, why string) error {
	if why != "" {
		why = ": " + why
	}
	return fmt.Errorf("schema at %s: keyword %q is %w%s", l.at, keyword, ErrUnsupported, why)
}

// quote is the shortest JSON of a string, without HTML escapes.
func quote(s string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return `""` // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// canonical writes a value compactly, keys sorted.
func canonical(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "null" // it was decoded from JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}
