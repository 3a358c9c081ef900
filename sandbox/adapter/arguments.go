package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/audit"
	"understudy/audit/diff"
)

// Arguments validates calls against the tools that an environment declares.
type Arguments struct {
	schemas map[string]*jsonschema.Schema
	roles   map[string]string
}

// NewArguments compiles the tools' input schemas. A tool without a schema takes
// any object. A schema that does not compile is an *audit.Error that names it.
func NewArguments(tools []audit.Tool) (*Arguments, error) {
	a := &Arguments{schemas: make(map[string]*jsonschema.Schema, len(tools)), roles: map[string]string{}}
	for _, tool := range tools {
		schema, err := compile(tool)
		if err != nil {
			return nil, &audit.Error{
				Code: audit.CodeInvalid, Message: "input schema of tool " + tool.Name,
				Hint: "the environment declares a JSON Schema that is not valid; correct it there", Err: err,
			}
		}
		a.schemas[tool.Name] = schema
		a.roles[tool.Name] = tool.Role
	}
	return a, nil
}

func compile(tool audit.Tool) (*jsonschema.Schema, error) {
	text := tool.Input
	if len(text) == 0 {
		text = json.RawMessage(`{"type":"object"}`)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // of no scheme: a foreign schema must not make us read files or fetch addresses
	const at = "tool.json"
	if err := compiler.AddResource(at, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(at)
}

// Check returns the call's arguments, or the observation of a call that must
// not reach the environment: an unknown tool, arguments that are no JSON object
// or over the limits, arguments that violate the schema.
func (a *Arguments) Check(call audit.Call) (json.RawMessage, *audit.Observation) {
	schema, known := a.schemas[call.Tool]
	if !known {
		return nil, a.unknown(call.Tool)
	}
	if role := a.roles[call.Tool]; call.Role != "" && role != "" && call.Role != role {
		return nil, Invalid(audit.Authorization, fmt.Sprintf("tool %s is for the %s", call.Tool, role))
	}
	text := bytes.TrimSpace(call.Arguments)
	if len(text) == 0 {
		text = []byte("{}")
	}
	value, err := diff.Decode(text, diff.Limits{})
	if err != nil {
		return nil, Invalid(audit.MalformedCall, "arguments: "+err.Error())
	}
	if value.Type() != diff.TypeObject {
		return nil, Invalid(audit.MalformedCall, "arguments: not a JSON object")
	}
	if value.DuplicateKeys() {
		return nil, Invalid(audit.MalformedCall, "arguments: a name is given twice")
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, Invalid(audit.MalformedCall, "arguments: "+err.Error())
	}
	if err := schema.Validate(instance); err != nil {
		return nil, Invalid(audit.SchemaInvalid, explain(err))
	}
	return text, nil
}

// unknown refuses a tool that is not declared. Names that reach for the inside
// of an object are marked: they are attempts to leave the sandbox.
func (a *Arguments) unknown(tool string) *audit.Observation {
	o := Invalid(audit.UnknownTool, fmt.Sprintf("tool %q is not known", tool))
	if strings.HasPrefix(tool, "_") || strings.ContainsAny(tool, ".()/\\") {
		o.Error.Details = json.RawMessage(`{"alarm":"sandbox_escape_attempt"}`)
	}
	return o
}

// explain is the first leaf of a validation error: the argument and what is wrong.
func explain(err error) string {
	leaf, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return "arguments: " + err.Error()
	}
	for len(leaf.Causes) > 0 {
		leaf = leaf.Causes[0]
	}
	text := leaf.Error()
	if _, reason, found := strings.Cut(text, "': "); found {
		text = reason
	}
	if len(leaf.InstanceLocation) == 0 {
		return "arguments: " + text
	}
	return "argument " + strings.Join(leaf.InstanceLocation, "/") + ": " + text
}
