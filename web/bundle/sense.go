package bundle

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	markup "golang.org/x/net/html"
)

// sense is what the main part of a served page tells a reader, whatever its links lead to.
type sense struct {
	digest [sha256.Size]byte
	empty  bool // it says that there is nothing, and shows no figure
}

// senseOf reads a page. Filters live in the addresses of links, so that the same table
// under one filter and under another is the same but for them; forms are not in a bundle.
func senseOf(page []byte) sense {
	var s sense
	h := sha256.New()
	inside, notice, figures := false, false, false
	walk(page, func(kind markup.TokenType, token markup.Token) {
		switch {
		case token.Data == "main" && kind != markup.TextToken:
			inside = kind == markup.StartTagToken
		case !inside:
		case kind == markup.TextToken:
			h.Write([]byte(strings.Join(strings.Fields(token.Data), " ") + "\n"))
		case kind == markup.StartTagToken || kind == markup.SelfClosingTagToken:
			notice = notice || slices.Contains(strings.Fields(valueOf(token, "class")), "empty")
			figures = figures || token.Data == "table" || token.Data == "svg"
			h.Write([]byte("<" + token.Data))
			for _, a := range token.Attr {
				if drawn(a.Key) {
					h.Write([]byte(" " + a.Key + "=" + a.Val))
				}
			}
			h.Write([]byte(">\n"))
		}
	})
	s.empty = notice && !figures
	h.Sum(s.digest[:0])
	return s
}

// drawn reports whether an attribute is part of what is seen: the shapes of pictures are,
// links and marks of what is chosen are not.
func drawn(key string) bool {
	return !slices.Contains([]string{"href", "class", "id", "title", "role"}, key) && !strings.HasPrefix(key, "aria-") && !strings.HasPrefix(key, "data-")
}

func valueOf(token markup.Token, key string) string {
	for _, a := range token.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// walk reads the tokens of a page without those of elements that no bundle has.
func walk(page []byte, visit func(kind markup.TokenType, token markup.Token)) {
	z := markup.NewTokenizer(bytes.NewReader(page))
	skipping := ""
	for {
		kind := z.Next()
		if kind == markup.ErrorToken {
			return
		}
		raw := z.Raw()
		leaves := kind == markup.StartTagToken && bytes.Contains(raw, []byte(toolsClass))
		token := z.Token()
		switch {
		case skipping != "":
			if kind == markup.EndTagToken && token.Data == skipping {
				skipping = ""
			}
		case kind == markup.StartTagToken && leftOut(token.Data, leaves):
			skipping = token.Data
		default:
			visit(kind, token)
		}
	}
}

// toolsClass marks who is signed in, and the switch of colours.
const toolsClass = `class="tools"`

// leftOut reports whether an element and what is in it has no place in a bundle.
func leftOut(tag string, tools bool) bool {
	return tag == "div" && tools || slices.Contains([]string{"script", "form", "dialog", "button"}, tag)
}
