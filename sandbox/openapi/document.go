package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"understudy/audit"
	"understudy/audit/diff"
)

// document is what is read of an OpenAPI document.
type document struct {
	OpenAPI string `json:"openapi"`
	Servers []struct {
		URL string `json:"url"`
	} `json:"servers"`
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas       map[string]any             `json:"schemas"`
		Parameters    map[string]json.RawMessage `json:"parameters"`
		RequestBodies map[string]json.RawMessage `json:"requestBodies"`
	} `json:"components"`
}

// operation is how one tool is called over HTTP.
type operation struct {
	method string
	path   string
	places []place // of its method in the document, whether they are tools or not
	params []parameter
	body   string // media type of the body; "" = none
	whole  bool   // the argument "body" is the body; else the other arguments are its fields
	tool   audit.Tool
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name     string `json:"name"`
	In       string `json:"in"` // path, query, header or cookie
	Required bool   `json:"required"`
	Schema   any    `json:"schema"`
	Explode  *bool  `json:"explode"`
	Describe string `json:"description"`
}

// The media types of bodies that can be made from arguments.
const (
	mediaJSON = "application/json"
	mediaForm = "application/x-www-form-urlencoded"
)

// parse reads a document. Operations that cannot be tools are told in notes.
func parse(text []byte, lastSegment bool, exclude []string) (ops []operation, base string, notes []string, err error) {
	asJSON := text
	if !json.Valid(text) {
		if err = diff.CheckYAML(text); err == nil {
			asJSON, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			return nil, "", nil, fmt.Errorf("the document is neither JSON nor YAML: %w", err)
		}
	}
	var d document
	if err := json.Unmarshal(asJSON, &d); err != nil {
		return nil, "", nil, fmt.Errorf("the document is no OpenAPI document: %w", err)
	}
	if !strings.HasPrefix(d.OpenAPI, "3.") {
		return nil, "", nil, fmt.Errorf("the document says openapi: %q; versions 3.0 and 3.1 are read", d.OpenAPI)
	}
	places := d.places()
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		if slices.Contains(exclude, path) {
			continue
		}
		for _, method := range methods() {
			raw, ok := d.Paths[path][method]
			if !ok {
				continue
			}
			op, err := d.operation(strings.ToUpper(method), path, raw, lastSegment)
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s %s is left out: %v", strings.ToUpper(method), path, err))
				continue
			}
			op.places = places[op.method]
			ops = append(ops, op)
		}
	}
	if len(d.Servers) > 0 {
		base = d.Servers[0].URL
	}
	return ops, base, notes, nil
}

func methods() []string { return []string{"get", "post", "put", "patch", "delete"} }

// places are all addresses of the document, by method.
func (d *document) places() map[string][]place {
	all := map[string][]place{}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range methods() {
			if _, ok := d.Paths[path][method]; ok {
				name := strings.ToUpper(method)
				all[name] = append(all[name], newPlace(name, path))
			}
		}
	}
	return all
}

// operation makes one operation a tool.
func (d *document) operation(method, path string, raw json.RawMessage, lastSegment bool) (operation, error) {
	var declared struct {
		ID          string          `json:"operationId"`
		Summary     string          `json:"summary"`
		Description string          `json:"description"`
		Parameters  []parameter     `json:"parameters"`
		Body        json.RawMessage `json:"requestBody"`
		Effect      audit.Effect    `json:"x-effect"`
	}
	if err := json.Unmarshal(raw, &declared); err != nil {
		return operation{}, err
	}
	var shared []parameter
	if common, ok := d.Paths[path]["parameters"]; ok {
		if err := json.Unmarshal(common, &shared); err != nil {
			return operation{}, err
		}
	}
	op := operation{method: method, path: path}
	schema := inputs{Type: "object", Properties: map[string]any{}}
	for _, p := range append(shared, declared.Parameters...) {
		p, err := d.parameter(p)
		if err != nil {
			return op, err
		}
		op.params = slices.DeleteFunc(op.params, func(q parameter) bool { return q.Name == p.Name && q.In == p.In })
		op.params = append(op.params, p)
		schema.add(p.Name, d.schema(p.Schema), p.Required || p.In == "path")
	}
	if err := op.addBody(d, declared.Body, &schema); err != nil {
		return op, err
	}
	if schema.uses {
		schema.Defs = d.definitions()
	}
	input, err := json.Marshal(schema)
	if err != nil {
		return op, err
	}
	description := declared.Description
	if description == "" {
		description = declared.Summary
	}
	op.tool = audit.Tool{Name: name(declared.ID, method, path, lastSegment), Description: description, Input: input, Effect: effect(method, declared.Effect)}
	return op, nil
}

// inputs is the schema of a tool's arguments.
type inputs struct {
	Type       string         `json:"type"`
	Properties map[string]any `json:"properties"`
	Required   []string       `json:"required,omitempty"`
	Additional bool           `json:"additionalProperties"`
	Defs       map[string]any `json:"$defs,omitempty"`
	uses       bool           // the definitions
}

func (in *inputs) add(name string, schema any, required bool) {
	in.Properties[name] = schema
	in.uses = in.uses || refers(schema)
	if required && !slices.Contains(in.Required, name) {
		in.Required = append(in.Required, name)
	}
}

// requestBody is what an operation's body may be.
type requestBody struct {
	Ref      string `json:"$ref"`
	Required bool   `json:"required"`
	Content  map[string]struct {
		Schema any `json:"schema"`
	} `json:"content"`
}

// requestBody follows a reference to a shared body.
func (d *document) requestBody(raw json.RawMessage) (body requestBody, err error) {
	if err := json.Unmarshal(raw, &body); err != nil {
		return body, err
	}
	if at, ok := strings.CutPrefix(body.Ref, "#/components/requestBodies/"); ok {
		shared, found := d.Components.RequestBodies[at]
		if !found {
			return body, fmt.Errorf("%s is not there", body.Ref)
		}
		body = requestBody{}
		if err := json.Unmarshal(shared, &body); err != nil {
			return body, err
		}
	}
	if body.Ref != "" {
		return body, fmt.Errorf("its body, %s, cannot be read", body.Ref)
	}
	return body, nil
}

// addBody makes the fields of an object the arguments, and any other body the
// argument "body".
func (op *operation) addBody(d *document, raw json.RawMessage, into *inputs) error {
	if len(raw) == 0 {
		return nil
	}
	body, err := d.requestBody(raw)
	if err != nil {
		return err
	}
	for _, media := range []string{mediaJSON, mediaForm} {
		content, ok := body.Content[media]
		if !ok {
			continue
		}
		op.body = media
		object, _ := d.resolve(content.Schema).(map[string]any)
		fields, _ := object["properties"].(map[string]any)
		if len(fields) == 0 || slices.ContainsFunc(op.params, func(p parameter) bool { _, clash := fields[p.Name]; return clash }) {
			op.whole = true
			into.add("body", d.schema(content.Schema), body.Required)
			return nil
		}
		required, _ := object["required"].([]any)
		for field, schema := range fields {
			into.add(field, d.schema(schema), slices.Contains(required, any(field)))
		}
		slices.Sort(into.Required)
		return nil
	}
	return fmt.Errorf("its body is none of %s and %s", mediaJSON, mediaForm)
}

// parameter follows a reference to a shared parameter.
func (d *document) parameter(p parameter) (parameter, error) {
	if at, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
		raw, found := d.Components.Parameters[at]
		if !found {
			return p, fmt.Errorf("%s is not there", p.Ref)
		}
		p = parameter{}
		if err := json.Unmarshal(raw, &p); err != nil {
			return p, err
		}
	}
	if p.Ref != "" || p.Name == "" || !slices.Contains([]string{"path", "query", "header", "cookie"}, p.In) {
		return p, fmt.Errorf("parameter %q in %q %s cannot be read", p.Name, p.In, p.Ref)
	}
	return p, nil
}

const schemaRef = "#/components/schemas/"

// resolve follows a reference at the top of a schema.
func (d *document) resolve(schema any) any {
	for range 20 { // a chain of names; a ring of them is no schema
		object, ok := schema.(map[string]any)
		if !ok {
			return schema
		}
		at, ok := object["$ref"].(string)
		if !ok {
			return schema
		}
		schema = d.Components.Schemas[strings.TrimPrefix(at, schemaRef)]
	}
	return nil
}

// schema is an OpenAPI schema as JSON Schema 2020-12: references go to $defs, and
// what only version 3.0 says is said anew. Names of properties are no keywords,
// whatever they are, and values are no schemas.
func (d *document) schema(node any) any {
	switch node := node.(type) {
	case map[string]any:
		out := make(map[string]any, len(node))
		for name, child := range node {
			switch at, text := child.(string); {
			case text && name == "$ref":
				out[name] = strings.Replace(at, schemaRef, "#/$defs/", 1)
			case slices.Contains([]string{"example", "examples", "discriminator", "xml", "externalDocs"}, name):
			case slices.Contains([]string{"enum", "const", "default"}, name):
				out[name] = child
			case slices.Contains([]string{"properties", "patternProperties", "dependentSchemas"}, name):
				out[name] = d.named(child)
			default:
				out[name] = d.schema(child)
			}
		}
		modernise(out)
		return out
	case []any:
		out := make([]any, len(node))
		for i := range node {
			out[i] = d.schema(node[i])
		}
		return out
	case nil:
		return map[string]any{}
	}
	return node
}

// named are schemas by the names of what they describe.
func (d *document) named(node any) any {
	schemas, ok := node.(map[string]any)
	if !ok {
		return node
	}
	out := make(map[string]any, len(schemas))
	for name, schema := range schemas {
		out[name] = d.schema(schema)
	}
	return out
}

// modernise says nullable and the Boolean bounds of OpenAPI 3.0 as 2020-12 does.
func modernise(schema map[string]any) {
	if nullable, _ := schema["nullable"].(bool); nullable {
		if kind, ok := schema["type"].(string); ok {
			schema["type"] = []any{kind, "null"}
		}
		if values, ok := schema["enum"].([]any); ok && !slices.Contains(values, nil) {
			schema["enum"] = append(slices.Clone(values), nil)
		}
	}
	delete(schema, "nullable")
	for bound, strict := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		flag, boolean := schema[strict].(bool)
		if !boolean {
			continue
		}
		delete(schema, strict)
		if limit, ok := schema[bound]; ok && flag {
			schema[strict] = limit
			delete(schema, bound)
		}
	}
}

func (d *document) definitions() map[string]any {
	defs := make(map[string]any, len(d.Components.Schemas))
	for name, schema := range d.Components.Schemas {
		defs[name] = d.schema(schema)
	}
	return defs
}

// refers reports whether a schema holds a reference.
func refers(node any) bool {
	switch node := node.(type) {
	case map[string]any:
		for name, child := range node {
			if name == "$ref" || refers(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(node, refers)
	}
	return false
}

// name is what the document calls an operation, or what its path says.
func name(id, method, path string, lastSegment bool) string {
	safe := regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
	if lastSegment {
		parts := strings.Split(strings.Trim(path, "/"), "/")
		id = strings.Trim(parts[len(parts)-1], "{}")
	}
	if id == "" {
		id = strings.ToLower(method) + path
	}
	return strings.Trim(safe.ReplaceAllString(id, "_"), "_")
}

// effect is what the method promises; POST promises nothing.
func effect(method string, declared audit.Effect) audit.Effect {
	switch {
	case declared != "":
		return declared
	case method == http.MethodGet:
		return audit.Read
	case method == http.MethodPost:
		return audit.UnknownEffect
	}
	return audit.Write
}
