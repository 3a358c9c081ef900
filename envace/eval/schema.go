package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"understudy/audit"
)

// Function is a tool as function-calling benchmarks describe it: JSON Schema with
// Python's names of types, or an OpenAI definition around it.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Inner       *Function       `json:"function,omitempty"` // of OpenAI's wrapping
}

// Tool is the function as the program knows tools. Nothing is known of its effect.
func (f Function) Tool() (audit.Tool, error) {
	if f.Inner != nil {
		return f.Inner.Tool()
	}
	if f.Name == "" {
		return audit.Tool{}, errors.New("a tool has no name")
	}
	schema, err := jsonSchema(f.Parameters)
	if err != nil {
		return audit.Tool{}, fmt.Errorf("tool %s: %w", f.Name, err)
	}
	return audit.Tool{Name: f.Name, Description: f.Description, Input: schema, Effect: audit.UnknownEffect, Role: "assistant"}, nil
}

// jsonSchema writes Python's types as JSON Schema has them, and nothing else anew.
func jsonSchema(parameters json.RawMessage) (json.RawMessage, error) {
	if len(parameters) == 0 || string(parameters) == "null" {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	decoder := json.NewDecoder(bytes.NewReader(parameters))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("read its parameters: %w", err)
	}
	return json.Marshal(withTypes(value, true))
}

// withTypes changes the types of a schema; properties are named freely, so that
// "type" among them is a parameter's name.
func withTypes(value any, schema bool) any {
	names := map[string]string{"dict": "object", "float": "number", "tuple": "array", "list": "array", "int": "integer", "str": "string", "bool": "boolean", "double": "number", "long": "integer"}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			text, isText := inner.(string)
			switch {
			case schema && key == "type" && isText && text == "any":
				delete(v, key) // no type: anything
			case schema && key == "type" && isText && names[text] != "":
				v[key] = names[text]
			case schema && (key == "default" || key == "enum" || key == "example"):
			default:
				v[key] = withTypes(inner, !schema || key != "properties")
			}
		}
	case []any:
		for i := range v {
			v[i] = withTypes(v[i], schema)
		}
	}
	return value
}

// parameterNames are a tool's parameters in the order of its schema.
func parameterNames(parameters json.RawMessage) []string {
	var schema struct {
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(parameters, &schema) != nil || len(schema.Properties) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(schema.Properties))
	if _, err := decoder.Token(); err != nil { // {
		return nil
	}
	var names []string
	for decoder.More() {
		name, err := decoder.Token()
		text, ok := name.(string)
		var value json.RawMessage
		if err != nil || !ok || decoder.Decode(&value) != nil {
			return nil
		}
		names = append(names, text)
	}
	return names
}

// readLines reads JSON values one after another, or a single list of them.
func readLines[T any](text []byte, what string) ([]T, error) {
	var out []T
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '[' {
		if err := json.Unmarshal(trimmed, &out); err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		return out, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var one T
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s, entry %d: %w", what, len(out)+1, err)
		}
		out = append(out, one)
	}
}
