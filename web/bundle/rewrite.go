package bundle

import (
	"bytes"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"

	markup "golang.org/x/net/html"
)

// policy lets a page of the bundle load its own style sheet and pictures, and
// run nothing: what it shows was written by a model.
const policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self' file:; img-src 'self' file: data:">`

// link is what an element of a page points to.
type link struct {
	url  string
	page bool // a page to go to, else a file to draw with
}

// attribute is the one that points somewhere, "" = none does.
func attribute(tag string) string {
	switch tag {
	case "a":
		return "href"
	case "link":
		return "href"
	case "img":
		return "src"
	}
	return ""
}

// links lists what a page points to.
func links(page []byte) []link {
	var all []link
	z := markup.NewTokenizer(bytes.NewReader(page))
	for {
		kind := z.Next()
		if kind == markup.ErrorToken {
			return all
		}
		if kind != markup.StartTagToken && kind != markup.SelfClosingTagToken {
			continue
		}
		token := z.Token()
		for _, a := range token.Attr {
			if a.Key == attribute(token.Data) {
				all = append(all, link{a.Val, token.Data == "a"})
			}
		}
	}
}

// rewrite makes a served page a file: links are relative, forms and scripts are
// gone, and what is not in the bundle is no link.
func (c *crawl) rewrite(page []byte) []byte {
	var out bytes.Buffer
	z := markup.NewTokenizer(bytes.NewReader(page))
	skipping := "" // the element whose content is left out
	for {
		kind := z.Next()
		if kind == markup.ErrorToken {
			return out.Bytes()
		}
		raw := slices.Clone(z.Raw())
		name, _ := z.TagName()
		tag := string(name)
		if skipping != "" {
			if kind == markup.EndTagToken && tag == skipping {
				skipping = ""
			}
			continue
		}
		switch {
		case kind == markup.StartTagToken && leftOut(tag, bytes.Contains(raw, []byte(toolsClass))):
			skipping = tag
		case (kind == markup.StartTagToken || kind == markup.SelfClosingTagToken) && attribute(tag) != "":
			c.point(&out, retokenize(raw))
		case kind == markup.StartTagToken && tag == "main":
			out.Write(raw)
			c.banner(&out)
		case kind == markup.StartTagToken && tag == "head":
			out.Write(raw)
			out.WriteString(policy)
		default:
			out.Write(raw)
		}
	}
}

// retokenize reads one tag again, with its attributes.
func retokenize(raw []byte) markup.Token {
	z := markup.NewTokenizer(bytes.NewReader(raw))
	z.Next()
	return z.Token()
}

// point writes a tag whose link is made relative, or taken away.
func (c *crawl) point(out *bytes.Buffer, token markup.Token) {
	key := attribute(token.Data)
	out.WriteByte('<')
	out.WriteString(token.Data)
	for _, a := range token.Attr {
		if a.Key == key {
			to, ok := c.relative(a.Val)
			if !ok {
				out.WriteString(` title="not in this bundle"`)
				continue
			}
			a.Val = to
		} else if strings.HasPrefix(a.Key, "data-") || a.Key == "title" && token.Data == "a" {
			continue
		}
		fmt.Fprintf(out, ` %s="%s"`, a.Key, html.EscapeString(a.Val))
	}
	out.WriteByte('>')
}

// relative is where a link leads within the folder.
func (c *crawl) relative(to string) (string, bool) {
	if strings.HasPrefix(to, "#") {
		return to, true
	}
	at, kind := c.resolve(to)
	file := c.names[at]
	if kind == outside || file == "" {
		return "", false
	}
	if u, err := url.Parse(to); err == nil && u.Fragment != "" {
		file += "#" + u.EscapedFragment()
	}
	return file, true
}

// banner says on every page what the reader has before them.
func (c *crawl) banner(out *bytes.Buffer) {
	fmt.Fprintf(out, `<p class="asof">A copy of run <b>%s</b>, made %s.`, html.EscapeString(c.cfg.Run), c.cfg.Now.UTC().Format("2006-01-02 15:04 UTC"))
	if n := len(c.leftOut); n > 0 {
		fmt.Fprintf(out, ` It holds %d pages; %d further pages that they point to were left out to bound its size, and are not links here.`, len(c.pages), n)
	}
	out.WriteString(" Long bodies are cut as on the dashboard.</p>")
}
