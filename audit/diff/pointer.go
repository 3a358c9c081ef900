package diff

import (
	"fmt"
	"strconv"
	"strings"
)

// Pointers are RFC 6901 texts: "" is the whole value, "/a~1b/0" the first element
// of member "a/b".

// appendToken appends one reference token, escaped.
func appendToken[T string | []byte](dst []byte, name T) []byte {
	dst = append(dst, '/')
	for i := range len(name) {
		switch c := name[i]; c {
		case '~':
			dst = append(dst, '~', '0')
		case '/':
			dst = append(dst, '~', '1')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func appendIndex(dst []byte, i int) []byte { return strconv.AppendInt(append(dst, '/'), int64(i), 10) }

// parsePointer splits a pointer into its decoded tokens.
func parsePointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("json pointer %q: want it empty or beginning with /", pointer)
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		decoded, ok := unescapeToken(token)
		if !ok {
			return nil, fmt.Errorf("json pointer %q: ~ must be written ~0, and / in a name ~1", pointer)
		}
		tokens[i] = decoded
	}
	return tokens, nil
}

func unescapeToken(token string) (string, bool) {
	if !strings.Contains(token, "~") {
		return token, true
	}
	var out strings.Builder
	for i := 0; i < len(token); i++ {
		if token[i] != '~' {
			out.WriteByte(token[i])
			continue
		}
		i++
		switch {
		case i < len(token) && token[i] == '0':
			out.WriteByte('~')
		case i < len(token) && token[i] == '1':
			out.WriteByte('/')
		default:
			return "", false
		}
	}
	return out.String(), true
}

// arrayIndex reads an index as RFC 6901 writes it: digits without leading zeros.
func arrayIndex(token string) (int, bool) {
	if token == "" || len(token) > 9 || token[0] == '0' && len(token) > 1 {
		return 0, false
	}
	i := 0
	for _, c := range []byte(token) {
		if c-'0' > 9 {
			return 0, false
		}
		i = i*10 + int(c-'0')
	}
	return i, true
}

// Lookup finds the value that a JSON Pointer names below v.
func (v Value) Lookup(pointer string) (Value, bool) {
	tokens, err := parsePointer(pointer)
	if err != nil || v.d == nil {
		return Value{}, false
	}
	for _, token := range tokens {
		if v.Type() == TypeArray {
			i, ok := arrayIndex(token)
			if !ok || i >= v.Len() {
				return Value{}, false
			}
			v = v.At(i)
			continue
		}
		kid, ok := v.Get(token)
		if !ok {
			return Value{}, false
		}
		v = kid
	}
	return v, true
}
