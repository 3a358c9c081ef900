package starlark

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"understudy/audit"
)

func fileOptions() *syntax.FileOptions {
	// No set, while or recursion: a domain needs none, and each can hang or grow.
	return &syntax.FileOptions{TopLevelControl: true, GlobalReassign: true}
}

// maxSource is far more than a file that a person reads, and bounds the depth of
// what the parser and the guard recurse into.
const maxSource = 512 << 10

// compile runs the domain's files in scope order; the globals of each are
// predeclared for the next.
func (d *Domain) compile(sources []source) error {
	scope := d.predeclared()
	for _, s := range sources {
		globals, err := d.compileFile(s, scope)
		if err != nil {
			return loadError(s, err)
		}
		globals.Freeze()
		maps.Copy(scope, globals)
	}
	d.generate, _ = scope["state"].(starlark.Callable)
	d.makeTasks, _ = scope["tasks"].(starlark.Callable)
	d.makePossible, _ = scope["possible"].(starlark.Callable)
	return nil
}

func (d *Domain) compileFile(s source, scope starlark.StringDict) (starlark.StringDict, error) {
	if len(s.text) > maxSource {
		return nil, fmt.Errorf("a file larger than %d bytes", maxSource)
	}
	file, err := fileOptions().Parse(s.name, s.text, 0)
	if err != nil {
		return nil, err
	}
	if err := guard(file); err != nil {
		return nil, err
	}
	program, err := starlark.FileProgram(file, scope.Has)
	if err != nil {
		return nil, err
	}
	r := d.newRun(d.limits.Generate)
	defer r.finish()
	var globals starlark.StringDict
	err = contain(func() error {
		var err error
		globals, err = program.Init(r.thread, scope)
		return err
	})
	return globals, err
}

// loadError turns a mistake in a domain's file into file:line:column, what is
// wrong, and the remedy.
func loadError(s source, err error) error {
	pos, msg := syntax.MakePosition(&s.name, 1, 1), err.Error()
	if e, ok := errors.AsType[syntax.Error](err); ok {
		pos, msg = e.Pos, e.Msg
	} else if list, ok := errors.AsType[resolve.ErrorList](err); ok {
		pos, msg = list[0].Pos, list[0].Msg
	} else if e, ok := errors.AsType[*starlark.EvalError](err); ok {
		pos, msg = evalPosition(e), e.Msg
	}
	return &audit.Error{
		Code: audit.CodeInvalid, Message: fmt.Sprintf("%s: %s", pos, msg), Hint: hint(sourceLine(s.text, pos.Line), msg),
	}
}

// evalPosition is the innermost position in the domain's own text.
func evalPosition(e *starlark.EvalError) syntax.Position {
	for i := range e.CallStack {
		if p := e.CallStack.At(i).Pos; p.Line > 0 {
			return p
		}
	}
	return syntax.Position{}
}

func sourceLine(text []byte, line int32) string {
	lines := strings.Split(string(text), "\n")
	if line < 1 || int(line) > len(lines) {
		return ""
	}
	return lines[line-1]
}

// hint says what to write instead of what Python has and Starlark lacks.
func hint(line, msg string) string {
	hints := []struct{ pattern, remedy string }{
		{`\bwhile\b`, "there is no while: loop over range(n) and break"},
		{`\b(try|except|raise|finally)\b`, "there are no exceptions: refuse with error(family, message), catch with attempt(fn, ...)"},
		{`\bclass\b`, "there are no classes: use dicts and functions"},
		{`\b(import|from)\b|\bload\b`, "files of a domain share one scope: nothing needs importing"},
		{`\bf["']`, `there are no f-strings: write "%s" % x or "{}".format(x)`},
		{`\*\*`, "there is no **: multiply"},
		{`\bdel\b`, "there is no del: use d.pop(key)"},
		{`\bis\b`, "there is no is: compare with =="},
		{`\b(lambda|def)\b.*\*`, "variable arguments are not offered"},
	}
	for _, h := range hints {
		if regexp.MustCompile(h.pattern).MatchString(line) && !strings.Contains(msg, "undefined") {
			return h.remedy
		}
	}
	if strings.Contains(msg, "undefined") {
		return "define the name above its use, in this file or an earlier one"
	}
	return "look just before the place that is named"
}
