package starlark

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/audit"
	"understudy/sandbox/state"
)

// schema is a domain's declared shape of the state. A call that commits a state
// outside it is a fault, and its writes are dropped.
type schema struct {
	text     []byte
	compiled *jsonschema.Schema
}

func readSchema(fsys fs.FS, dir string, m Manifest) (*schema, error) {
	if m.StateSchema == "" {
		return nil, nil
	}
	name := path.Join(dir, m.StateSchema)
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: "read state schema " + name, Err: err}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "read state schema " + name, Err: err}
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // of no scheme: a schema refers to itself alone
	if err := c.AddResource(name, doc); err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "read state schema " + name, Err: err}
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "compile state schema " + name, Err: err}
	}
	return &schema{text: text, compiled: compiled}, nil
}

// accept reports how root violates the schema. It costs time in the size of the
// state: a schema is for domains under development.
func (s *schema) accept(root *state.Object) error {
	if s == nil {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(state.AppendJSON(nil, root)))
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	if err := s.compiled.Validate(doc); err != nil {
		return fmt.Errorf("a write outside the state's schema: %w", err)
	}
	return nil
}
