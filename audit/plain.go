package audit

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes a text from outside harmless to read, on a page, in a log and on a
// terminal: control characters, terminal escapes and marks that hide text or turn
// the direction of writing become visible; line feeds and tabs stay. Markup is
// for the caller to escape. Rehearsed text is hostile input.
func Plain(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x20 && hidden(r):
			b.WriteRune(0x2400 + r) // the picture of the control character
		case hidden(r):
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// ShellWord is a name as one word of a command that a person is told to type:
// quoted for a POSIX shell where it has to be. Names come from whoever made them.
func ShellWord(name string) string {
	name = Plain(name)
	harmless := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("@%+=:,./_-", r)
	}
	if name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !harmless(r) }) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// hidden reports whether a character is not what it seems.
func hidden(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// ShownURL is a URL without what may be secret in it: user, password, query.
func ShownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, "", "", ""
	return u.String()
}

// ShownError is an error of an HTTP client with its URL as ShownURL shows it.
func ShownError(err error) error {
	at, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%s %s: %w", strings.ToUpper(at.Op), ShownURL(at.URL), at.Err)
}
