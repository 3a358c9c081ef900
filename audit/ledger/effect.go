package ledger

import "strings"

// pathPattern puts * for the tokens of a state path that look like keys of
// records rather than names of fields: anything with a digit or a special
// character in it.
func pathPattern(path string) string {
	tokens := strings.Split(path, "/")
	for i, t := range tokens[1:] {
		if strings.ContainsFunc(t, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' }) {
			tokens[i+1] = "*"
		}
	}
	return strings.Join(tokens, "/")
}
