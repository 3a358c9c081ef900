package state

import (
	"fmt"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
)

// At resolves a JSON Pointer (RFC 6901) in a frozen value; "" is the value itself.
func At(v starlark.Value, pointer string) (starlark.Value, error) {
	if pointer == "" {
		return v, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("pointer %q does not start with /", pointer)
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = unescape.Replace(token)
		var next starlark.Value
		switch c := v.(type) {
		case *Object:
			next = c.Get(token)
		case *Array:
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(c.vals) && strconv.Itoa(i) == token {
				next = c.vals[i]
			}
		}
		if next == nil {
			return nil, fmt.Errorf("nothing at %q of %s", token, pointer)
		}
		v = next
	}
	return v, nil
}
