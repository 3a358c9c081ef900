package openapi

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// place is an operation's address.
type place struct {
	method, path string
	pattern      *regexp.Regexp // of paths without escapes
	parameters   int
}

var placeholder = regexp.MustCompile(`\{[^{}/]*\}`)

func newPlace(method, path string) place {
	var pattern strings.Builder
	at := 0
	all := placeholder.FindAllStringIndex(path, -1)
	for _, hole := range all {
		pattern.WriteString(regexp.QuoteMeta(path[at:hole[0]]) + "[^/]+")
		at = hole[1]
	}
	pattern.WriteString(regexp.QuoteMeta(path[at:]))
	return place{method, path, regexp.MustCompile("^" + pattern.String() + "/?$"), len(all)}
}

// address is the path with its arguments, each escaped to be one segment. A slash in one
// is data and travels as %2F; but many servers and proxies unescape a path before they
// route it, some twice, so that an argument may not become a path that is another one
// then: dots that lead up, nothing, or the address of another operation of the document.
// What lies beside a tool's operation is not the policy's to call.
func (op *operation) address(values map[string]string) (string, error) {
	escaped := placeholder.ReplaceAllStringFunc(op.path, func(hole string) string {
		if value, given := values[hole]; given {
			return url.PathEscape(value)
		}
		return hole
	})
	for _, hole := range slices.Sorted(maps.Keys(values)) {
		if leadsElsewhere(values[hole]) {
			return "", fmt.Errorf("%s: %q in a path asks another address than the tool's", strings.Trim(hole, "{}"), values[hole])
		}
	}
	for decoded := range mostUnescapes {
		read, slashes := op.read(values, decoded)
		for _, other := range op.places {
			if other.path != op.path && other.pattern.MatchString(read) && (slashes || other.parameters < placeholders(op.path)) {
				return "", fmt.Errorf("%s asks %s %s, and that is not the tool's address", read, other.method, other.path)
			}
		}
	}
	return escaped, nil
}

// mostUnescapes is how often a value is unescaped to see what a server may make of it:
// as it is, and by those that unescape what was unescaped.
const mostUnescapes = 3

// read is the path as a server reads it that unescapes a value so many times more than
// once; slashes says whether a value brought some.
func (op *operation) read(values map[string]string, more int) (path string, slashes bool) {
	path = placeholder.ReplaceAllStringFunc(op.path, func(hole string) string {
		value, given := values[hole]
		if !given {
			return hole
		}
		value = strings.ReplaceAll(unescaped(value, more), `\`, "/")
		slashes = slashes || strings.Contains(value, "/")
		return value
	})
	return path, slashes
}

func placeholders(path string) int { return len(placeholder.FindAllString(path, -1)) }

func unescaped(value string, times int) string {
	for range times {
		next, err := url.PathUnescape(value)
		if err != nil {
			return value
		}
		value = next
	}
	return value
}

// leadsElsewhere reports whether a value would make a path another one: nothing,
// and dots that servers and proxies resolve, escaped or not (RFC 3986, 6.2.2.3).
func leadsElsewhere(value string) bool {
	for more := range mostUnescapes {
		read := unescaped(value, more)
		if read == "" || slices.ContainsFunc(strings.FieldsFunc(read, func(r rune) bool { return r == '/' || r == '\\' }), func(part string) bool {
			return part == "." || part == ".."
		}) {
			return true
		}
	}
	return false
}
