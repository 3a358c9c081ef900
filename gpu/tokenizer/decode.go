package tokenizer

import "strings"

// Decode is the text of ids. Broken UTF-8 becomes U+FFFD, ids without a token nothing;
// special tokens are left out if skipSpecial is set. An added token gives its content.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	var b strings.Builder
	for _, id := range ids {
		if skipSpecial && t.special[id] {
			continue
		}
		b.WriteString(t.Token(id))
	}
	return lossy(b.String())
}

// Stream decodes ids as they come. What it has returned never changes: bytes that may
// still become a character are held back.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	held        string
}

// Stream begins a text; skipSpecial as in Decode.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial}
}

// Push is the text that is certain after one more id, often "" within a character. All
// results of Push and the last of Flush, in order, are what Decode gives.
func (s *Stream) Push(id int32) string {
	if s.skipSpecial && s.t.special[id] {
		return ""
	}
	text := s.held + s.t.Token(id)
	n := len(text)
	for k := 1; k < 4 && k <= len(text); k++ {
		if isPrefix(text[len(text)-k:]) {
			n = len(text) - k
			break
		}
	}
	s.held = text[n:]
	return lossy(text[:n])
}

// Flush is the text of what was held back, and begins anew.
func (s *Stream) Flush() string {
	held := s.held
	s.held = ""
	return lossy(held)
}
