package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu/tokenizer"
)

var update = flag.Bool("update", false, "rewrite testdata; needs UNDERSTUDY_TOKENIZERS for the golden ids")

// corpus is what the small vocabularies are trained on.
const corpus = `The order #W0001017 is pending. The order was cancelled by the customer, and the refund is on its way.
It's not the customer's order; they've returned it, we're sorry, I'll check, I'm here, you'd know.
{"order_id": "#W0001017", "status": "pending", "items": [{"item_id": 1008292230, "price": 12.5, "available": true}]}
{"error": {"code": "not_found", "message": "order not found"}}
func total(items []Item) (sum int) {
	for _, item := range items {
		sum += item.Price
	}
	return sum
}
def total(items):
    return sum(item.price for item in items)

SELECT order_id, status FROM orders WHERE status = 'pending' AND total > 100.00;
Größe, naïve café, Ελλάδα, Привет мир, 中文字符, 日本語, 한국어, हिन्दी, 👍🏽
1 12 123 1234 12345 3.14 2026-11-29T22:50:57Z
`

func added() []tokenizer.AddedToken {
	return []tokenizer.AddedToken{
		{Content: "<|endoftext|>", Special: true},
		{Content: "<|im_start|>", Special: true},
		{Content: "<|im_end|>", Special: true},
		{Content: "<think>"},
		{Content: "</think>"},
		{Content: "<mask>", LStrip: true, Special: true},
		{Content: "<sep>", RStrip: true},
		{Content: "ORD-1017", SingleWord: true},
		{Content: "ORD-10", SingleWord: true},
		{Content: "status", SingleWord: true},
		{Content: "na\u00efve caf\u00e9", Normalized: true},
		{Content: "not_found"},
	}
}

// small is one vocabulary of ours: trained, then edited to have what real ones have.
type small struct {
	pattern tokenizer.Pattern
	edit    [][2]string // in its JSON
	reason  string
}

func smalls() []small {
	return []small{
		{tokenizer.GPT2, [][2]string{{`"Ą":`, `"<|unk|>":`}, {`"unk_token":null`, `"unk_token":"<|unk|>"`}}, "a byte that becomes unk_token"},
		{tokenizer.SmolLM2, [][2]string{{`"Ą":`, `"no byte":`}}, "a byte that is left out"},
		{tokenizer.Qwen2, nil, "NFC"},
		{tokenizer.Llama3, [][2]string{{`"Ą":`, `"Ġunreachable":`}, {`"ignore_merges":false`, `"ignore_merges":true`}}, "a token that no merge makes"},
	}
}

func (s small) path() string { return filepath.Join("testdata", string(s.pattern)+".json") }

// train is the vocabulary's tokenizer.json.
func (s small) train(t *testing.T) []byte {
	t.Helper()
	tok, err := tokenizer.Train(slices.Values(strings.SplitAfter(corpus, "\n")), tokenizer.TrainConfig{
		Pattern: s.pattern, Size: 420, NFC: s.pattern == tokenizer.Qwen2, Added: added(),
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), tokenizer.FileName)
	if err := tok.Save(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, e := range s.edit {
		if strings.Count(text, e[0]) != 1 {
			t.Fatalf("%s is not once in the vocabulary of %s", e[0], s.pattern)
		}
		text = strings.Replace(text, e[0], e[1], 1)
	}
	return []byte(text)
}

func TestTrainIsReproducible(t *testing.T) {
	for _, s := range smalls() {
		got := s.train(t)
		if *update {
			if err := os.WriteFile(s.path(), got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(s.path())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what Train gives for the same texts", s.path())
		}
	}
}

// goldenCase is one text with the Rust library's answers, by pattern.
type goldenCase struct {
	Text string                        `json:"text"`
	IDs  map[tokenizer.Pattern][]int32 `json:"ids"`
}

const goldenPath = "testdata/golden.json"

// TestGolden compares with the ids that the Rust library gave (gpu/testdata/
// tokenizer_reference.mjs) for our own vocabularies.
func TestGolden(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	data, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, s := range smalls() {
		tok, err := tokenizer.Load(s.path())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs[s.pattern]) {
				t.Errorf("%s: %q\n gives %v\n want  %v", s.pattern, c.Text, got, c.IDs[s.pattern])
			}
		}
	}
}

func writeGolden(t *testing.T) {
	t.Helper()
	var cases []goldenCase
	var texts []string
	for _, c := range fixedTexts() {
		if len(c.text) < 200 {
			texts = append(texts, c.text)
		}
	}
	texts = append(texts,
		"order ORD-1017, ORD-10 and ORD-1018, XORD-1017", "status: status_code statuses status", "not_found_not_found",
		"na\u00efve caf\u00e9 nai\u0308ve cafe\u0301 caf\u00e9", "a <mask> b<mask>\n\n<mask>", "x <sep>  \n y<sep>", " unreachable\x04\x06x")
	for _, text := range fuzzedTexts(400, 2, contentsOf(added())) {
		if len(text) < 60 && len(texts) < 90 {
			texts = append(texts, text)
		}
	}
	for _, text := range texts {
		cases = append(cases, goldenCase{text, map[tokenizer.Pattern][]int32{}})
	}
	for _, s := range smalls() {
		for i, a := range ask(t, modules(t), s.path(), texts) {
			cases[i].IDs[s.pattern] = a.IDs
		}
	}
	var b strings.Builder
	for i, c := range cases { // one case a line
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s%s\n", []string{"[", ","}[min(i, 1)], line)
	}
	b.WriteString("]\n")
	if err := os.WriteFile(goldenPath, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func contentsOf(tokens []tokenizer.AddedToken) []string {
	var out []string
	for _, token := range tokens {
		out = append(out, token.Content)
	}
	return out
}

// TestSmallVocabularies asks the Rust library about thousands of texts.
func TestSmallVocabularies(t *testing.T) {
	dir := modules(t)
	for _, s := range smalls() {
		tok, err := tokenizer.Load(s.path())
		if err != nil {
			t.Fatal(err)
		}
		texts := append(fuzzedTexts(3000, 3, contentsOf(added())), sources(t)...)
		compare(t, tok, texts, ask(t, dir, s.path(), texts))
	}
}
