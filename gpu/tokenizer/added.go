package tokenizer

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// trie finds added tokens: at each place the longest, from left to right.
type trie struct {
	first  [256]bool // bytes with which a token begins
	single string    // the one byte with which all begin, if there is only one
	nodes  []node    // 0 is the root
	tokens []AddedToken
}

type node struct {
	next  map[byte]int32
	token int // index into tokens, -1 for none
}

// newTrie builds a trie over the tokens' texts. The first of equal texts counts.
func newTrie(tokens []AddedToken, text func(AddedToken) string) *trie {
	t := &trie{nodes: []node{{token: -1}}, tokens: tokens}
	starts := map[byte]bool{}
	for i, token := range tokens {
		at, word := int32(0), text(token)
		if word == "" {
			continue
		}
		t.first[word[0]], starts[word[0]] = true, true
		for j := range len(word) {
			next, ok := t.nodes[at].next[word[j]]
			if !ok {
				next = int32(len(t.nodes))
				t.nodes = append(t.nodes, node{token: -1})
				if t.nodes[at].next == nil {
					t.nodes[at].next = map[byte]int32{}
				}
				t.nodes[at].next[word[j]] = next
			}
			at = next
		}
		if t.nodes[at].token < 0 {
			t.nodes[at].token = i
		}
	}
	if len(starts) == 1 {
		for c := range starts {
			t.single = string([]byte{c})
		}
	}
	return t
}

// find is the first match at or after from: its range and its token, -1 for none.
func (t *trie) find(s string, from int) (start, end, token int) {
	if len(t.nodes) == 1 {
		return 0, 0, -1
	}
	for i := from; i < len(s); i++ {
		if t.single != "" {
			skip := strings.Index(s[i:], t.single)
			if skip < 0 {
				break
			}
			i += skip
		} else if !t.first[s[i]] {
			continue
		}
		token, at := -1, int32(0)
		for j := i; j < len(s); j++ {
			next, ok := t.nodes[at].next[s[j]]
			if !ok {
				break
			}
			at = next
			if t.nodes[at].token >= 0 {
				token, end = t.nodes[at].token, j+1
			}
		}
		if token >= 0 {
			return i, end, token
		}
	}
	return 0, 0, -1
}

// span is a range of a text's bytes; spans are in order and apart.
type span struct{ from, to int }

type spans []span

// touch reports whether a span shares a byte with from..to-1.
func (s spans) touch(from, to int) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].to > from })
	return i < len(s) && s[i].from < to
}

// restFunc appends the ids of a text without added tokens, which begins at a place of
// the whole.
type restFunc func(dst []int32, section string, at int) []int32

// split appends the ids of the tokens that it finds in s, which begins at a place of the
// whole text, and what rest makes of the text between them. Special tokens that touch
// plain text are text.
func (t *trie) split(dst []int32, s string, at int, plain spans, rest restFunc) []int32 {
	done := 0
	for from := 0; ; {
		start, end, i := t.find(s, from)
		if i < 0 {
			break
		}
		from = end // a match that is turned down still uses up its text
		token := t.tokens[i]
		if token.SingleWord && (endsWithWord(s[:start]) || startsWithWord(s[end:])) ||
			token.Special && plain.touch(at+start, at+end) {
			continue
		}
		if token.LStrip {
			start = max(done, len(strings.TrimRightFunc(s[:start], unicode.IsSpace)))
		}
		if token.RStrip {
			end = len(s) - len(strings.TrimLeftFunc(s[end:], unicode.IsSpace))
		}
		if done < start {
			dst = rest(dst, s[done:start], at+done)
		}
		dst = append(dst, token.ID)
		done = end
	}
	if done < len(s) {
		dst = rest(dst, s[done:], at+done)
	}
	return dst
}

func endsWithWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w: letters and what counts as one, marks, decimal digits, connecting
// punctuation, joiners.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || r == '\u200c' || r == '\u200d' ||
		unicode.In(r, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}
