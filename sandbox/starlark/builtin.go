package starlark

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// predeclared is the scope of a domain's files: the names of the domain contract
// over the guarded versions of Starlark's own.
func (d *Domain) predeclared() starlark.StringDict {
	scope := starlark.StringDict{
		"version": starlark.MakeInt(d.Version),
		"compat":  starlark.String(d.Compat),
	}
	for name, f := range map[string]builtinFunc{
		"string": builtinString, "date": builtinDate, "integer": builtinNumber, "number": builtinNumber, "boolean": builtinSimple,
		"anything": builtinSimple, "enum": builtinEnum, "array": builtinArray, "object": builtinObject, "optional": builtinOptional,
		"tool": d.builtinTool, "check": d.builtinCheck, "invariant": d.builtinInvariant, "after_call": d.builtinAfterCall,
		"error": builtinError, "attempt": builtinAttempt, "role": builtinRole, "find": builtinFind, "find_all": builtinFindAll,
		"copy": builtinCopy, "chars": builtinChars, "lower_ci": builtinLower, "json_text": builtinJSONText, "parse_json": builtinParseJSON,
		"round": builtinRound, "sum": builtinSum, "fixed": builtinFixed, "text": builtinText, "repr_py": builtinReprPy,
		"calculate": builtinCalculate, "new_id": builtinNewID, "now": builtinNow, "date_add": builtinDateAdd,
		"hours_between": builtinHoursBetween, "days_between": builtinDaysBetween, "weekday": builtinWeekday, "changes": builtinChanges,
		"seeded": builtinSeeded, "changed": builtinChanged,
	} {
		scope[name] = starlark.NewBuiltin(name, f)
	}
	if d.Compat == CompatTau2 {
		for name, f := range map[string]builtinFunc{
			"hashable": builtinHashable, "lower": builtinPyLower, "py_type": builtinPyType, "checked": builtinChecked,
		} {
			scope[name] = starlark.NewBuiltin(name, f)
		}
	}
	addGuarded(scope)
	return scope
}

func (d *Domain) builtinCheck(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "fn", &fn); err != nil {
		return nil, err
	}
	if d.checks[fn.Name()] != nil {
		return nil, fmt.Errorf("check %s is declared twice", fn.Name())
	}
	d.checks[fn.Name()] = fn
	return starlark.None, nil
}

func (d *Domain) builtinInvariant(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "fn", &fn); err != nil {
		return nil, err
	}
	d.invariants = append(d.invariants, fn)
	return starlark.None, nil
}

func (d *Domain) builtinAfterCall(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "fn", &fn); err != nil {
		return nil, err
	}
	d.after = append(d.after, fn)
	return starlark.None, nil
}

// builtinError is error(family, message, **details): it ends the call as refused.
func builtinError(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var code, message starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 2, &code, &message); err != nil {
		return nil, err
	}
	f, err := family(code)
	if err != nil {
		return nil, err
	}
	if err := charge(thread, message); err != nil {
		return nil, err
	}
	e := &refusal{family: f, message: pyText(message)}
	if len(kwargs) > 0 {
		details := starlark.NewDict(len(kwargs))
		for _, kv := range kwargs {
			if err := charge(thread, kv[1]); err != nil {
				return nil, err
			}
			_ = details.SetKey(kv[0], kv[1]) // keyword names hash
		}
		if e.details, err = state.Freeze(details); err != nil {
			return nil, err
		}
	}
	return nil, e
}

// builtinAttempt is attempt(fn, *args, **kwargs) -> (value, None) or (None, error).
// Writes made before a refusal stay, as they do after a caught Python exception.
func builtinAttempt(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 0 {
		return nil, errors.New("attempt: want a function and its arguments")
	}
	v, err := starlark.Call(thread, args[0], args[1:], kwargs)
	if e, ok := asRefusal(err); ok {
		d := starlark.NewDict(3)
		_ = d.SetKey(starlark.String("family"), starlark.String(e.family))
		_ = d.SetKey(starlark.String("message"), starlark.String(e.message))
		if e.details != nil {
			_ = d.SetKey(starlark.String("details"), state.Plain(e.details))
		}
		return starlark.Tuple{starlark.None, d}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return starlark.Tuple{v, starlark.None}, nil
}

func builtinRole(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.String(runOf(thread).role), starlark.UnpackArgs(b.Name(), args, kwargs)
}

// builtinFind is find(table, fn): the first value of a dict or list for which fn
// is true, or None.
func builtinFind(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var found starlark.Value = starlark.None
	err := search(thread, b, args, kwargs, func(v starlark.Value) bool {
		found = v
		return false
	})
	return found, err
}

func builtinFindAll(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var found []starlark.Value
	err := search(thread, b, args, kwargs, func(v starlark.Value) bool {
		found = append(found, v)
		return true
	})
	if err != nil {
		return nil, err
	}
	return starlark.NewList(found), runOf(thread).spendSlots(len(found), slotBytes)
}

func search(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple, hit func(starlark.Value) bool) error {
	var table starlark.Iterable
	var fn starlark.Callable
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "table", &table, "fn", &fn); err != nil {
		return err
	}
	i := table.Iterate()
	defer i.Done()
	arg := starlark.Tuple{nil}
	for v := starlark.Value(nil); i.Next(&v); {
		if m, ok := table.(starlark.Mapping); ok {
			w, _, err := m.Get(v)
			if err != nil {
				return err
			}
			v = w
		}
		arg[0] = v
		if err := runOf(thread).toil(16); err != nil { // fn may be a built-in, which takes no step
			return err
		}
		is, err := starlark.Call(thread, fn, arg, nil)
		if err != nil {
			return err
		}
		if bool(is.Truth()) && !hit(v) {
			return nil
		}
	}
	return nil
}

func builtinCopy(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &v); err != nil {
		return nil, err
	}
	if err := charge(thread, v); err != nil {
		return nil, err
	}
	return state.Plain(v), nil
}

func builtinChars(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var s string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "s", &s); err != nil {
		return nil, err
	}
	if err := runOf(thread).spend(24 * int64(len(s))); err != nil {
		return nil, err
	}
	chars := make([]starlark.Value, 0, utf8.RuneCountInString(s))
	for _, r := range s {
		chars = append(chars, starlark.String(r))
	}
	return starlark.NewList(chars), nil
}

func builtinLower(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var s string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "s", &s); err != nil {
		return nil, err
	}
	return starlark.String(strings.ToLower(s)), runOf(thread).spend(int64(len(s)))
}

func builtinJSONText(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &v); err != nil {
		return nil, err
	}
	if err := charge(thread, v); err != nil {
		return nil, err
	}
	text, err := answer(state.Python()).Append(nil, v)
	return starlark.String(text), err
}

func builtinParseJSON(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var s string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "s", &s); err != nil {
		return nil, err
	}
	if err := runOf(thread).spend(16 * int64(len(s))); err != nil {
		return nil, err
	}
	v, err := state.Decode([]byte(s))
	if err != nil {
		return nil, &refusal{family: audit.Unparseable, message: err.Error()}
	}
	return state.Plain(v), nil
}
