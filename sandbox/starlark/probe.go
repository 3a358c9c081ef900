package starlark

import (
	"context"
	"strings"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// Probes implements audit.Prober: the declared read-only calls with their
// arguments filled in from the call and from earlier probes' answers. A probe
// whose arguments cannot be filled is left out.
func (s *Session) Probes(call audit.Call) []audit.Call {
	d := s.env.domain
	t := d.byName[call.Tool]
	if t == nil {
		return nil
	}
	args, bad := d.decodeArguments(call.Arguments)
	if bad != nil {
		return nil
	}
	var probes []audit.Call
	var answers []starlark.Value
	for _, p := range t.probes {
		filled, ok := fill(p.args, args, answers)
		if !ok {
			answers = append(answers, starlark.None)
			continue
		}
		probe := audit.Call{Tool: p.tool, Arguments: state.AppendJSON(nil, filled)}
		if target := d.byName[p.tool]; target != nil {
			probe.Role = target.Role
		}
		probes = append(probes, probe)
		answers = append(answers, s.answer(probe))
	}
	return probes
}

// answer is the body of a probe's answer now, or None.
func (s *Session) answer(probe audit.Call) starlark.Value {
	obs, err := s.DryRun(context.Background(), probe)
	if err != nil || obs.Status != audit.StatusOK {
		return starlark.None
	}
	v, err := state.Decode(obs.Raw)
	if err != nil {
		return starlark.None
	}
	return v
}

// fill replaces "$args.a.b" and "$before.0.a" in a probe's arguments.
func fill(template, args *state.Object, answers []starlark.Value) (*state.Object, bool) {
	var filled members
	complete := true
	template.Each(func(key string, v starlark.Value) bool {
		s, _ := starlark.AsString(v)
		var err error
		switch {
		case strings.HasPrefix(s, "$args."):
			v, err = state.At(args, pointerOf(s, "$args"))
		case strings.HasPrefix(s, "$before."):
			v, err = state.At(state.NewArray(answers), pointerOf(s, "$before"))
		}
		complete = complete && err == nil
		filled.add(key, v)
		return complete
	})
	return state.NewObject(filled.keys, filled.vals), complete
}

func pointerOf(path, prefix string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, prefix), ".", "/")
}
