package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"understudy/gpu/regular"
)

// FileName is the name of a tokenizer in a model's folder.
const FileName = "tokenizer.json"

// Tokenizer is one vocabulary with its rules.
type Tokenizer struct {
	pieces  []string         // id → bytes; "" where there is no token
	ids     map[string]int32 // bytes of the model's tokens → id
	byteIDs [256]int32       // the token of a single byte, or none
	merges  *pairs
	whole   []atomic.Uint32 // whether a token's bytes give the token itself, see wholeState

	unknown      int32 // unk_token, or none
	fuseUnknown  bool  // a run of unknown bytes is one unk_token
	ignoreMerges bool  // a word that is a token is that token, whatever the merges say

	nfc    bool
	digits bool // every digit is a word of its own, before the pattern is applied
	style  Pattern
	scan   scanFunc

	added      []AddedToken // in the order of their ids
	addedIDs   map[string]int32
	special    map[int32]bool
	raw        *trie // added tokens that are matched in the text as it is
	normalized *trie // those that are matched after NFC

	prefix, suffix []int32 // what the post-processor puts around a text
}

// none is the id of no token.
const none = int32(-1)

// AddedToken is a token that is matched in the text, not made by merges.
type AddedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no letter, digit or underscore touches it
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // matched after NFC, in its own NFC form
	Special    bool   `json:"special"`     // control, not text: left out by Decode if asked
}

// mostBytes is more than any tokenizer.json has.
const mostBytes = 512 << 20

// Load reads a tokenizer.json, or that of a folder.
func Load(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, FileName)
	}
	data, err := regular.Read(path, mostBytes)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %s: %w", path, err)
	}
	return t, nil
}

// Size is one more than the largest id: the rows that an embedding needs at least.
func (t *Tokenizer) Size() int { return len(t.pieces) }

// ID is the id of a token: an added token by its content, another by its bytes.
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.addedIDs[token]; ok {
		return id, true
	}
	id, ok := t.ids[token]
	return id, ok
}

// Token is the bytes of a token, "" for an id that has none. They need not be valid
// UTF-8: a character can be spread over tokens.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.pieces) {
		return ""
	}
	return t.pieces[id]
}

// IsSpecial tells control tokens from text.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// Added are the added tokens in the order of their ids. The caller must not change
// the slice.
func (t *Tokenizer) Added() []AddedToken { return t.added }

// Part is a piece of a text. In plain parts special tokens are read as the text they
// look like: what users and tools say must not be able to end a turn or open another
// role's. Added tokens that are not special are matched everywhere.
type Part struct {
	Text  string
	Plain bool
}

// Encode is the ids of a text, without what the post-processor would put around it.
func (t *Tokenizer) Encode(text string) []int32 { return t.Append(nil, text) }

// Append is Encode that appends to dst.
func (t *Tokenizer) Append(dst []int32, text string) []int32 {
	return t.AppendParts(dst, Part{Text: text})
}

// AppendParts appends the ids of the parts' text as a whole: those of Encode, unless a
// special token stands in a plain part. Encoding the parts one by one would cut words at
// their borders.
func (t *Tokenizer) AppendParts(dst []int32, parts ...Part) []int32 {
	text, plain := join(parts)
	return t.sections(dst, text, plain, func(dst []int32, section string, _ int) []int32 {
		t.cut(section, func(word string) { dst = t.appendWord(dst, word) })
		return dst
	})
}

// join is the whole text, valid UTF-8, and where it is plain.
func join(parts []Part) (text string, plain spans) {
	var b strings.Builder
	for _, p := range parts {
		if !utf8.ValidString(p.Text) {
			p.Text = lossy(p.Text)
		}
		if p.Plain {
			plain = append(plain, span{b.Len(), b.Len() + len(p.Text)})
		}
		if len(parts) == 1 {
			return p.Text, plain
		}
		b.WriteString(p.Text)
	}
	return b.String(), plain
}

// Wrap puts the post-processor's special tokens around ids: Llama 3's
// <|begin_of_text|>, nothing in most others. A chat template writes them itself.
func (t *Tokenizer) Wrap(ids []int32) []int32 {
	out := make([]int32, 0, len(t.prefix)+len(ids)+len(t.suffix))
	return append(append(append(out, t.prefix...), ids...), t.suffix...)
}

// sections appends the ids of added tokens, and what rest makes of the text between.
func (t *Tokenizer) sections(dst []int32, text string, plain spans, rest restFunc) []int32 {
	return t.raw.split(dst, text, 0, plain, func(dst []int32, section string, at int) []int32 {
		within := plain
		if t.nfc && !norm.NFC.IsNormalString(section) {
			section = composed(section)
			if len(plain) > 0 { // places have moved: all of it is plain, to be safe
				at, within = 0, spans{{0, len(section)}}
			}
		}
		return t.normalized.split(dst, section, at, within, rest)
	})
}

// cut calls do with each word of a text without added tokens.
func (t *Tokenizer) cut(s string, do func(word string)) {
	for len(s) > 0 {
		end := len(s)
		if t.digits {
			end = digitsEnd(s)
		}
		for part := s[:end]; len(part) > 0; {
			n := t.scan(part)
			do(part[:n])
			part = part[n:]
		}
		s = s[end:]
	}
}

// lossy replaces each maximal broken UTF-8 sequence by U+FFFD.
func lossy(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 8)
	for len(s) > 0 {
		n, valid := runeLen(s)
		if valid {
			b.WriteString(s[:n])
		} else {
			b.WriteString("\ufffd")
		}
		s = s[n:]
	}
	return b.String()
}

// runeLen is the bytes of the character that s begins with, or of the longest prefix
// of one when it is broken (Unicode's maximal subpart, at least 1).
func runeLen(s string) (n int, valid bool) {
	if r, size := utf8.DecodeRuneInString(s); r != utf8.RuneError || size > 1 {
		return size, true
	}
	for n = min(utf8.UTFMax-1, len(s)); n > 1; n-- {
		if isPrefix(s[:n]) {
			return n, false
		}
	}
	return 1, false
}

// isPrefix reports whether bytes could follow that make s one valid character.
func isPrefix(s string) bool {
	low, high := byte(0x80), byte(0xbf) // of the second byte
	var want int
	switch c := s[0]; {
	case c >= 0xc2 && c <= 0xdf:
		want = 2
	case c >= 0xe0 && c <= 0xef:
		want = 3
		if c == 0xe0 {
			low = 0xa0 // below is an overlong form
		}
		if c == 0xed {
			high = 0x9f // above are surrogates
		}
	case c >= 0xf0 && c <= 0xf4:
		want = 4
		if c == 0xf0 {
			low = 0x90 // below is an overlong form
		}
		if c == 0xf4 {
			high = 0x8f // above is no Unicode
		}
	}
	if len(s) >= want {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i] < low || s[i] > high {
			return false
		}
		low, high = 0x80, 0xbf
	}
	return true
}
