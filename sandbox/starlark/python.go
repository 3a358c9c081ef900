package starlark

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// pythonArguments binds arguments as a Python method call would, quoting the
// TypeError that CPython raises: types are not checked.
func (d *Domain) pythonArguments(t *toolDef, args *state.Object) ([]starlark.Tuple, *refusal) {
	var missing []string
	for _, f := range t.params.fields {
		if args.Get(f.name) == nil && !f.optional {
			missing = append(missing, "'"+f.name+"'")
		}
	}
	kwargs := make([]starlark.Tuple, 0, len(t.params.fields))
	unexpected := ""
	args.Each(func(key string, v starlark.Value) bool {
		if !t.params.declares(key) {
			unexpected = key
			return false
		}
		kwargs = append(kwargs, starlark.Tuple{starlark.String(key), state.Plain(v)})
		return true
	})
	fail := func(text string) ([]starlark.Tuple, *refusal) {
		name := t.Name + "()"
		if class := d.Manifest.Python[t.Role]; class != "" {
			name = class + "." + name
		}
		return nil, &refusal{family: audit.SchemaInvalid, message: name + " " + text}
	}
	if unexpected != "" {
		return fail(fmt.Sprintf("got an unexpected keyword argument '%s'", unexpected))
	}
	if len(missing) > 0 {
		plural := "s"
		if len(missing) == 1 {
			plural = ""
		}
		return fail(fmt.Sprintf("missing %d required positional argument%s: %s", len(missing), plural, pythonList(missing)))
	}
	for _, f := range t.params.fields {
		if args.Get(f.name) == nil && f.fallback != nil {
			kwargs = append(kwargs, starlark.Tuple{starlark.String(f.name), state.Plain(f.fallback)})
		}
	}
	return kwargs, nil
}

// pythonList joins names as CPython does: 'a' and 'b'; 'a', 'b', and 'c'.
func pythonList(names []string) string {
	switch n := len(names); n {
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	default:
		return strings.Join(names[:n-1], ", ") + ", and " + names[n-1]
	}
}
