package mount

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"understudy/audit/diff"
)

//go:embed schema.json
var schemaText []byte

// Schema is the JSON Schema (2020-12) of a file of environments, for editors.
func Schema() []byte { return bytes.Clone(schemaText) }

// validate lists the faults of a document against the schema, each with its line
// and what would be right.
func validate(t *tree) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	const at = "environments.json"
	if err := compiler.AddResource(at, doc); err != nil {
		return err
	}
	schema, err := compiler.Compile(at)
	if err != nil {
		return err
	}
	text, err := json.Marshal(t.json) // gives the validator its own numbers
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	failed, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(instance))
	if !ok {
		return nil
	}
	var faults []error
	for _, leaf := range leaves(failed) {
		faults = append(faults, explain(t, leaf, doc))
	}
	return errors.Join(faults...)
}

func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// explain says what is wrong in the words of the file.
func explain(t *tree, e *jsonschema.ValidationError, schema any) error {
	var place strings.Builder
	for _, step := range e.InstanceLocation {
		place.WriteString("/" + escape(step))
	}
	at := place.String()
	where := strings.Join(e.InstanceLocation, ".")
	if where == "" {
		where = "the file"
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		name := k.Properties[0]
		return fmt.Errorf("line %d: %s: unknown key %q; did you mean %q?", t.line(at+"/"+escape(name)), where, name, nearest(name, known(schema, e.SchemaURL)))
	case *kind.Required:
		return fmt.Errorf("line %d: %s: %s is missing", t.line(at), where, strings.Join(k.Missing, ", "))
	case *kind.Enum:
		var words []string
		for _, w := range k.Want {
			words = append(words, fmt.Sprint(w))
		}
		return fmt.Errorf("line %d: %s is %q; did you mean %q? (valid: %s)", t.line(at), where, fmt.Sprint(k.Got), nearest(fmt.Sprint(k.Got), words), strings.Join(words, ", "))
	case *kind.Pattern:
		return fmt.Errorf("line %d: %s is %q; it must look like %s", t.line(at), where, k.Got, k.Want)
	}
	text := e.Error()
	if _, reason, found := strings.Cut(text, "': "); found {
		text = reason
	}
	return fmt.Errorf("line %d: %s: %s", t.line(at), where, text)
}

// known are the keys that a part of the schema has.
func known(schema any, url string) []string {
	_, pointer, _ := strings.Cut(url, "#")
	for step := range strings.SplitSeq(strings.Trim(pointer, "/"), "/") {
		object, _ := schema.(map[string]any)
		schema = object[step]
	}
	object, _ := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	var names []string
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func nearest(word string, valid []string) string { return diff.Nearest(word, valid, math.MaxInt-1) }
