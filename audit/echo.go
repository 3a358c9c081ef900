package audit

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"understudy/audit/diff"
)

// EchoMap says which parts of a tool's ok answer repeat state cells: JSON
// Pointer pattern of the answer (with * for one token) to the JSON Pointer of
// the cell after the call. In the cell's pointer, {name} stands for the
// argument of that name, {/pointer} for the answer's value there, and each *
// for what the pattern's stars matched, in order. A pattern may end at an
// object or an array: then every leaf below it is echoed.
//
//	{"": "/orders/{order_id}", "/refund": "/payments/{/payment_id}/refund"}
type EchoMap map[string]string

// maxClaims bounds what one answer may claim, however long it is.
const maxClaims = 4096

// claims reads the state cells that an answer speaks of: leaf pointer of the
// state to the value that the answer gives it. A placeholder that the arguments
// or the answer cannot fill drops its rule.
func (m EchoMap) claims(arguments, body diff.Value) cells {
	claimed := make(cells)
	for _, pattern := range sortedKeys(m) {
		template := m[pattern]
		walkPattern(body, pointerTokens(pattern), nil, func(at diff.Value, stars []string) {
			pointer, ok := fillTemplate(template, arguments, body, stars)
			if ok && len(claimed) < maxClaims {
				leaves(at, pointer, func(p string, leaf diff.Value) { claimed[p] = leaf })
			}
		})
	}
	return claimed
}

// walkPattern visits every value that a pattern's tokens reach.
func walkPattern(v diff.Value, tokens, stars []string, visit func(diff.Value, []string)) {
	if len(tokens) == 0 {
		if v.Type() != diff.TypeAbsent {
			visit(v, stars)
		}
		return
	}
	if tokens[0] != "*" {
		if next, ok := v.Lookup("/" + escapeToken(tokens[0])); ok {
			walkPattern(next, tokens[1:], stars, visit)
		}
		return
	}
	for name, kid := range v.Members() {
		walkPattern(kid, tokens[1:], append(slices.Clip(stars), name), visit)
	}
	for i, kid := range v.Elements() {
		walkPattern(kid, tokens[1:], append(slices.Clip(stars), strconv.Itoa(i)), visit)
	}
}

// fillTemplate builds the pointer of a state cell.
func fillTemplate(template string, arguments, body diff.Value, stars []string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(template); i++ {
		switch c := template[i]; c {
		case '*':
			if len(stars) == 0 {
				return "", false
			}
			b.WriteString(escapeToken(stars[0]))
			stars = stars[1:]
		case '{':
			end := strings.IndexByte(template[i:], '}')
			if end < 0 {
				return "", false
			}
			name := template[i+1 : i+end]
			from, pointer := arguments, "/"+escapeToken(name)
			if strings.HasPrefix(name, "/") {
				from, pointer = body, name
			}
			value, ok := from.Lookup(pointer)
			if !ok || value.Text() == "" {
				return "", false
			}
			b.WriteString(escapeToken(value.Text()))
			i += end
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// leaves visits every scalar and empty container below v with its pointer.
func leaves(v diff.Value, pointer string, visit func(string, diff.Value)) {
	if v.Len() == 0 {
		visit(pointer, v)
		return
	}
	for name, kid := range v.Members() {
		leaves(kid, pointer+"/"+escapeToken(name), visit)
	}
	for i, kid := range v.Elements() {
		leaves(kid, pointer+"/"+strconv.Itoa(i), visit)
	}
}

// pointerTokens splits a JSON Pointer into its decoded tokens.
func pointerTokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, t := range tokens {
		tokens[i] = unescapeToken(t)
	}
	return tokens
}

func escapeToken(token string) string {
	if !strings.ContainsAny(token, "~/") {
		return token
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

func unescapeToken(token string) string {
	if !strings.Contains(token, "~") {
		return token
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
