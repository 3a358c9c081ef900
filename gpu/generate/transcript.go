package generate

import (
	"strings"
	"unicode/utf8"
)

// transcript turns tokens into text as they come. It holds back what may become
// a stop string, and half a character.
type transcript struct {
	tokens  [][]byte
	stops   []string
	text    []byte // all but stop strings
	emitted int    // bytes of text that were given out
	given   strings.Builder
}

func newTranscript(tokens [][]byte, stops []string) *transcript {
	return &transcript{tokens: tokens, stops: stops}
}

// write appends a token. It returns the text that is certain now, and whether a
// stop string ended it.
func (t *transcript) write(id int32) (text string, stopped bool) {
	from := len(t.text)
	if int(id) < len(t.tokens) {
		t.text = append(t.text, t.tokens[id]...)
	}
	if at := t.stop(from); at >= 0 {
		t.text = t.text[:at]
		return t.emit(len(t.text)), true
	}
	return t.emit(t.certain()), false
}

// stop is where the first stop string begins that ends after from, or -1.
func (t *transcript) stop(from int) int {
	first := -1
	for _, s := range t.stops {
		begin := max(from-len(s)+1, t.emitted)
		if i := strings.Index(string(t.text[begin:]), s); i >= 0 && (first < 0 || begin+i < first) {
			first = begin + i
		}
	}
	return first
}

// certain is how much of the text no later token can take back.
func (t *transcript) certain() int {
	n := len(t.text)
	for _, s := range t.stops {
		for k := min(len(s)-1, len(t.text)-t.emitted); k > 0; k-- {
			if strings.HasPrefix(s, string(t.text[len(t.text)-k:])) {
				n = min(n, len(t.text)-k)
				break
			}
		}
	}
	for back := 1; back <= min(utf8.UTFMax-1, n-t.emitted); back++ {
		if b := t.text[n-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(t.text[n-back : n]) {
				n -= back
			}
			break
		}
	}
	return n
}

func (t *transcript) emit(to int) string {
	if to <= t.emitted {
		return ""
	}
	out := strings.ToValidUTF8(string(t.text[t.emitted:to]), "\uFFFD")
	t.emitted = to
	t.given.WriteString(out)
	return out
}

// close gives out what was held back.
func (t *transcript) close() string { return t.emit(len(t.text)) }

// all is what was given out: the whole text once it is closed.
func (t *transcript) all() string { return t.given.String() }
