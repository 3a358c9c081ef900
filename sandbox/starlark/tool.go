package starlark

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// roleSetup is the role of what prepares a task: no agent sees or may call it.
const roleSetup = "setup"

// toolDef is a declared tool with its handler.
type toolDef struct {
	audit.Tool
	fn     *starlark.Function
	params *paramType // an object type
	probes []probeDef
}

// probeDef is a read-only call that shows what a write did: argument values are
// literals, "$args.<path>" or "$before.<probe>.<path>".
type probeDef struct {
	tool string
	args *state.Object
}

// builtinTool is tool(fn, doc, params, effect, role, errors, echo, probes, name).
func (d *Domain) builtinTool(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn *starlark.Function
	var params, echo *starlark.Dict
	var errs, probes *starlark.List
	doc, effect, role, name := "", string(audit.Read), "assistant", ""
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "fn", &fn, "doc?", &doc, "params?", &params, "effect?", &effect,
		"role?", &role, "errors?", &errs, "echo?", &echo, "probes?", &probes, "name?", &name)
	if err != nil {
		return nil, err
	}
	if doc == "" {
		doc = strings.TrimSpace(fn.Doc())
	}
	if name == "" {
		name = fn.Name()
	}
	t := &toolDef{fn: fn, Tool: audit.Tool{Name: name, Description: doc, Effect: audit.Effect(effect), Role: role}}
	if t.params, err = objectType(params, nil); err != nil {
		return nil, err
	}
	t.Input = json.RawMessage(state.AppendJSON(nil, t.params.schema()))
	if t.Errors, err = families(errs); err != nil {
		return nil, err
	}
	if t.Echo, err = echoes(echo); err != nil {
		return nil, err
	}
	if t.probes, err = probeDefs(probes); err != nil {
		return nil, err
	}
	return starlark.None, d.declare(t)
}

// declare checks a tool against its handler and the domain.
func (d *Domain) declare(t *toolDef) error {
	switch {
	case d.byName[t.Name] != nil:
		return fmt.Errorf("tool %s is declared twice", t.Name)
	case t.Effect != audit.Read && t.Effect != audit.Write:
		return fmt.Errorf("tool %s: effect is read or write, not %q", t.Name, t.Effect)
	case t.Role != "assistant" && t.Role != "user" && t.Role != roleSetup:
		return fmt.Errorf("tool %s: role is assistant, user or setup, not %q", t.Name, t.Role)
	case t.fn.NumParams() == 0:
		return fmt.Errorf("tool %s: its first parameter must be the state: def %s(db, ...)", t.Name, t.Name)
	}
	accepted := map[string]bool{}
	for i := 1; i < t.fn.NumParams(); i++ {
		name, _ := t.fn.Param(i)
		accepted[name] = true
	}
	for _, f := range t.params.fields {
		if !accepted[f.name] && !t.fn.HasKwargs() {
			return fmt.Errorf("tool %s: parameter %s is declared but the function does not take it", t.Name, f.name)
		}
		delete(accepted, f.name)
	}
	for i := 1; i < t.fn.NumParams(); i++ {
		if name, _ := t.fn.Param(i); accepted[name] && t.fn.ParamDefault(i) == nil && !t.fn.HasKwargs() {
			return fmt.Errorf("tool %s: the function takes %s but it is not declared in params", t.Name, name)
		}
	}
	d.tools = append(d.tools, t)
	d.byName[t.Name] = t
	return nil
}

func families(list *starlark.List) ([]audit.Family, error) {
	if list == nil {
		return nil, nil
	}
	out := make([]audit.Family, list.Len())
	for i := range out {
		f, err := family(list.Index(i))
		if err != nil {
			return nil, err
		}
		out[i] = f
	}
	return out, nil
}

func family(v starlark.Value) (audit.Family, error) {
	s, _ := starlark.AsString(v)
	if !slices.Contains(audit.Families(), audit.Family(s)) {
		return "", fmt.Errorf("%s is not an error family; the families are %v", brief(v), audit.Families())
	}
	return audit.Family(s), nil
}

func echoes(d *starlark.Dict) (audit.EchoMap, error) {
	if d == nil {
		return nil, nil
	}
	out := make(audit.EchoMap, d.Len())
	for _, item := range d.Items() {
		from, ok1 := starlark.AsString(item[0])
		to, ok2 := starlark.AsString(item[1])
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("echo maps a response pointer to a state pointer, not %s to %s", brief(item[0]), brief(item[1]))
		}
		out[from] = to
	}
	return out, nil
}

func probeDefs(list *starlark.List) ([]probeDef, error) {
	if list == nil {
		return nil, nil
	}
	var out []probeDef
	for i := range list.Len() {
		pair, ok := list.Index(i).(starlark.Tuple)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("a probe is (tool, {argument: value}), not %s", brief(list.Index(i)))
		}
		v, err := state.Freeze(pair[1])
		if err != nil {
			return nil, err
		}
		args, ok := v.(*state.Object)
		if !ok {
			return nil, fmt.Errorf("a probe is (tool, {argument: value}), not %s", brief(list.Index(i)))
		}
		name, ok := starlark.AsString(pair[0])
		if fn, isFn := pair[0].(*starlark.Function); isFn {
			name, ok = fn.Name(), true
		}
		if !ok {
			return nil, fmt.Errorf("a probe names a tool, not %s", brief(pair[0]))
		}
		out = append(out, probeDef{tool: name, args: args})
	}
	return out, nil
}
