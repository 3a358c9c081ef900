package starlark

import (
	"regexp"
	"strings"

	"go.starlark.net/starlark"
)

// pythonFailure words a handler's type error as CPython would. Under compat tau2
// argument types are not checked, so such an error is the caller's: the reference
// answers it as an ordinary refusal. Anything else (limits, cancellation, a
// mistake in the domain) stays a fault.
func (d *Domain) pythonFailure(err error) (string, bool) {
	e, ok := err.(*starlark.EvalError) //nolint:errorlint // the outermost error of starlark.Call
	if d.Compat != CompatTau2 || !ok {
		return "", false
	}
	rules := []struct{ pattern, text string }{
		{`unknown binary op: (\S+) (not in|in) (\S+)$`, "argument of type '$3' is not iterable"},
		{`unknown binary op: (\S+) (\S+) (\S+)$`, "unsupported operand type(s) for $2: '$1' and '$3'"},
		{`unknown unary op: (\S)(\S+)$`, "bad operand type for unary $1: '$2'"},
		{`(\S+) ([<>]=?) (\S+) not implemented`, "'$2' not supported between instances of '$1' and '$3'"},
		{`(?:len|any|all): value of type (\S+) has no len`, "object of type '$1' has no len()"},
		{`(\S+) value is not iterable`, "'$1' object is not iterable"},
		{`got (\S+), want iterable`, "'$1' object is not iterable"},
		{`slice index: got \S+, want int`, "slice indices must be integers or None or have an __index__ method"},
	}
	for _, r := range rules {
		pattern := regexp.MustCompile(r.pattern)
		if at := pattern.FindStringSubmatchIndex(e.Msg); at != nil {
			return pythonTypes(string(pattern.ExpandString(nil, r.text, e.Msg, at))), true
		}
	}
	return "", false
}

// pythonTypes replaces Starlark's quoted type names by Python's.
func pythonTypes(text string) string {
	return strings.NewReplacer("'string'", "'str'", "'map'", "'dict'", "'frozen map'", "'dict'", "'frozen list'", "'list'").Replace(text)
}
