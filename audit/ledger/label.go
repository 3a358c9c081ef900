package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"understudy/audit"
)

// maxLabel is the longest label in bytes: several of them must fit one index
// row, which Postgres limits to 2704 bytes.
const maxLabel = 200

// label makes a text from outside fit a label column: valid UTF-8 without NUL,
// at most maxLabel bytes. What had to change ends in a digest of the original,
// so that two texts never become one.
func label(s string) string {
	if len(s) <= maxLabel && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	suffix := "~" + hex.EncodeToString(sum[:8])
	clean := strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	return cut(clean, maxLabel-len(suffix)) + suffix
}

// cut shortens valid UTF-8 to at most n bytes, between code points.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// errorPrefix begins the label of an error outcome.
const errorPrefix = string(audit.Failed) + ":"

// outcomeLabel is ok, ok_empty, error:FAMILY, or "" for no outcome.
func outcomeLabel(o audit.Outcome) string {
	if o.Class == audit.Failed {
		return label(errorPrefix + string(o.Family))
	}
	return label(string(o.Class))
}

// digestBytes is d for a column that takes NULL for "not known".
func digestBytes(d audit.Digest) []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}
