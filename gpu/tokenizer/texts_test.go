package tokenizer_test

import (
	"math/rand/v2"
	"strings"
	"unicode"
)

// fixedTexts are strings on which tokenizers go wrong, each with its reason.
func fixedTexts() []struct{ text, reason string } {
	return []struct{ text, reason string }{
		{"", "nothing"},
		{" ", "one space"},
		{"   ", "spaces at the end stay together"},
		{"a  b   c", "the last space goes with the word"},
		{"\n\n  x\n \n", "newlines among spaces"},
		{"\r\n\r\nx\r\ny \r\n z", "CRLF"},
		{" \t\u00a0\u3000\u2028x", "white space beyond ASCII"},
		{"x\u0085y\u180ez\u200bw", "U+0085 is a space; U+180E and U+200B are not"},
		{"it's IT'S we're WE'RE they'll I'm you've he'd D'D 'LL'", "contractions in both cases"},
		{"it'\u017f \u017fo 'sometimes '", "long s is an s without regard to case"},
		{"don't'll've", "contractions in a row"},
		{"0 12 123 1234 12345678 3.14 1e-9 \u0663\u0664 \u00bd\u00b2\u2167", "digits of all kinds"},
		{"a1b22c333d", "digits between letters"},
		{"Ünïcödé Straße Ελλάδα Привет שלום مرحبا हिन्दी ไทย 中文字 日本語テキスト 한국어", "scripts"},
		{"e\u0301 \u1e9b\u0323 \u0041\u030a \u1100\u1161\u11a8 \u0958 \u2126 \ufb01", "NFC: composition, reordering, Hangul, exclusions, singletons"},
		{"\u0301 start \u0301\u0327x", "a mark without a letter"},
		{"a" + strings.Repeat("\u0300\u0316\u0301", 40) + "b", "more marks than stream-safe text has"},
		{"👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽", "emoji of several characters"},
		{"\x00\x01\x7f\x1b[31m", "control characters"},
		{"\ufeffBOM \ufffd", "marks of encodings"},
		{"func main() {\n\tfmt.Println(\"hi\")\n}\n", "code with tabs"},
		{"    if x == 1:\n        return {'a': [1, 2]}\n\n\n", "code with spaces"},
		{"{\"order_id\":\"#W0000001\",\"items\":[{\"id\":1008292230,\"ok\":true}]}", "JSON"},
		{"https://example.com/a?b=c&d=%20#frag", "a URL"},
		{"!!!??? --- ... ((([[[{{{ ===>>> /* */", "punctuation"},
		{"!\n?\r\n .\n\n", "newlines go with punctuation"},
		{"$x_1 = @y->z; #tag snake_case camelCase", "identifiers"},
		{strings.Repeat("a", 500), "one letter, over and over"},
		{strings.Repeat("ab", 300) + strings.Repeat("-", 100), "longer than the short path"},
		{strings.Repeat("汉字", 120), "long text without spaces"},
		{strings.Repeat(" ", 200) + "x" + strings.Repeat("\n", 100), "long white space"},
		{"<|im_start|>user\nhi<|im_end|>\n<|endoftext|>", "special tokens in the text"},
		{"<think>\n\n</think>\n\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "tokens that are added, not special"},
		{"<|im_start<|im_end|>|> <|im_end|", "broken special tokens"},
		{"<|begin_of_text|><|start_header_id|>x<|end_header_id|>\n\n<|eot_id|>", "Llama 3's"},
	}
}

// fuzzedTexts are n strings of mixed parts, the same for the same seed.
func fuzzedTexts(n int, seed uint64, added []string) []string {
	g := generator{rand.New(rand.NewPCG(seed, 6)), added}
	texts := make([]string, n)
	for i := range texts {
		var b strings.Builder
		for range 1 + g.IntN(12) {
			b.WriteString(g.part())
		}
		texts[i] = b.String()
	}
	return texts
}

type generator struct {
	*rand.Rand
	added []string
}

func (g generator) pick(from ...string) string { return from[g.IntN(len(from))] }

func (g generator) part() string {
	switch g.IntN(12) {
	case 0:
		return g.pick(" ", "  ", "\t", "\n", "\r\n", "\n\n", " \n ", "\u00a0", "\u3000 ", "\v", "\f", "\u2003", "\u0085")
	case 1:
		return g.pick("'s", "'T", "'re", "'VE", "'ll", "'Ll", "'d", "'m", "'\u017f", "'", "''", "'x", "'l", "'r e")
	case 2:
		return strings.Repeat(g.pick("0", "7", "9", "\u0665", "\u00bd", "\u2163", "\U0001d7d8"), 1+g.IntN(8))
	case 3:
		if len(g.added) > 0 {
			return g.pick(g.added...)
		}
		return "<|"
	case 4:
		return g.pick("{", "}", "()", "=>", "::", "!=", "...", "!?", "\"", "_", "-", "<", "|>", "/*", "#", "$", "€", "–", "“")
	case 5:
		return g.pick("the", "order", "Order", "return", "func", "SELECT", "über", "naïve", "Москва", "東京", "서울", "नमस्ते", "สวัสดี", "ﬁ", "ß")
	case 6:
		return string(rune('a'+g.IntN(26))) + strings.Repeat(g.pick("\u0301", "\u0327", "\u0323", "\u0308", "\u05b0"), 1+g.IntN(3))
	case 7:
		return strings.Repeat(g.pick("a", "na", "xyz", "é", "-", "=", " ", "ก"), 1+g.IntN(60))
	case 8, 9:
		var b strings.Builder
		for range 1 + g.IntN(6) {
			b.WriteRune(g.assigned())
		}
		return b.String()
	case 10:
		var b strings.Builder
		for range 1 + g.IntN(10) {
			b.WriteByte(byte(1 + g.IntN(126)))
		}
		return b.String()
	default:
		return g.pick(" ", "") + g.word()
	}
}

func (g generator) word() string {
	var b strings.Builder
	for range 1 + g.IntN(9) {
		b.WriteByte(byte('a' + g.IntN(26)))
	}
	return b.String()
}

// assigned is a character that Unicode 14 had, as far as its block is older: what is
// newer is classified differently by libraries of different years.
func (g generator) assigned() rune {
	limits := []rune{0x300, 0x800, 0x3000, 0x10000, 0x20000}
	for {
		r := rune(g.IntN(int(limits[g.IntN(len(limits))])))
		if unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) {
			return r
		}
	}
}
