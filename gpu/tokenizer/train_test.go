package tokenizer_test

import (
	"slices"
	"strings"
	"testing"

	"understudy/gpu/tokenizer"
)

func TestTrainKeepsAddedTokensSingle(t *testing.T) {
	tok, err := tokenizer.Train(slices.Values(strings.SplitAfter(corpus, "\n")), tokenizer.TrainConfig{
		Pattern: tokenizer.Qwen2, Size: 400,
		Added: []tokenizer.AddedToken{
			{Content: "<|end|>", Special: true}, {Content: "#W0001017"}, {Content: "pending", SingleWord: true}, {Content: "order", SingleWord: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text, reason string
		want         []string
	}{
		{"#W0001017 pending", "identifiers and enum values", []string{"#W0001017", " ", "pending"}},
		{"order<|end|>", "control tokens", []string{"order", "<|end|>"}},
	} {
		var got []string
		for _, id := range tok.Encode(c.text) {
			got = append(got, tok.Token(id))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q is %q, want %q (%s)", c.text, got, c.want, c.reason)
		}
	}
	if ids := tok.Encode("xpendingx"); slices.ContainsFunc(ids, func(id int32) bool { return tok.Token(id) == "pending" }) {
		t.Error("a token of a single word is found within another")
	}
	for id := range int32(256 + 4) {
		if tok.Token(id) == "" {
			t.Errorf("id %d has no token", id)
		}
	}
}

func TestTrainLearnsTheMostFrequentFirst(t *testing.T) {
	texts := []string{strings.Repeat("abab ", 10) + strings.Repeat("cd ", 9), strings.Repeat(" xyz", 3)}
	tok, err := tokenizer.Train(slices.Values(texts), tokenizer.TrainConfig{Size: 256 + 4})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for id := range int32(4) {
		got = append(got, tok.Token(256+id))
	}
	// ab 20 times, ab+ab 10 times; then three pairs 9 times each, of which those with a
	// space, the lowest byte, go first: " "+"c" before " "+"abab", whose id is higher.
	if want := []string{"ab", "abab", " c", " abab"}; !slices.Equal(got, want) {
		t.Errorf("learnt %q, want %q", got, want)
	}
	full, err := tokenizer.Train(slices.Values(texts), tokenizer.TrainConfig{Size: 1000, MinCount: 3})
	if err != nil {
		t.Fatal(err)
	}
	if full.Size() >= 1000 {
		t.Error("more merges than the texts give")
	}
	for _, text := range texts {
		if back := full.Decode(full.Encode(text), false); back != text {
			t.Errorf("%q comes back as %q", text, back)
		}
	}
}

func TestTrainShrinksItsTexts(t *testing.T) {
	texts := sources(t)
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	last := size + 1
	for _, vocabulary := range []int{256, 512, 1024, 2048} {
		tok, err := tokenizer.Train(slices.Values(texts), tokenizer.TrainConfig{Pattern: tokenizer.SmolLM2, Size: vocabulary})
		if err != nil {
			t.Fatal(err)
		}
		tokens := 0
		for _, text := range texts {
			tokens += len(tok.Encode(text))
		}
		if tok.Size() != vocabulary || tokens >= last {
			t.Errorf("%d tokens in the vocabulary give %d, want %d and fewer than %d", tok.Size(), tokens, vocabulary, last)
		}
		t.Logf("vocabulary %d: %.2f bytes a token", vocabulary, float64(size)/float64(tokens))
		last = tokens
	}
}

func TestTrainRefuses(t *testing.T) {
	for _, c := range []struct {
		config tokenizer.TrainConfig
		want   string
	}{
		{tokenizer.TrainConfig{Size: 255}, "size 255 is less than the 256"},
		{tokenizer.TrainConfig{Size: 256, Added: []tokenizer.AddedToken{{Content: "<x>"}}}, "size 256 is less than the 257"},
		{tokenizer.TrainConfig{Size: 1 << 30}, "too large"},
		{tokenizer.TrainConfig{Size: 300, Pattern: "words"}, `pattern "words" is not known`},
		{tokenizer.TrainConfig{Size: 300, Added: []tokenizer.AddedToken{{Content: ""}}}, "is empty"},
		{tokenizer.TrainConfig{Size: 300, Added: []tokenizer.AddedToken{{Content: "x"}, {Content: "x"}}}, `"x" is there twice`},
		{tokenizer.TrainConfig{Size: 300, Added: []tokenizer.AddedToken{{Content: "caf\u00e9"}}}, "read as the bytes 63 61 66 e9"},
		{tokenizer.TrainConfig{Size: 300, Added: []tokenizer.AddedToken{{Content: "a\xff"}}}, "not valid UTF-8"},
	} {
		_, err := tokenizer.Train(slices.Values([]string{"a"}), c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
}

func BenchmarkTrain(b *testing.B) {
	text := strings.Repeat(read(b, "../../README.md", "file.go"), 4)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tokenizer.Train(slices.Values([]string{text}), tokenizer.TrainConfig{Size: 1024}); err != nil {
			b.Fatal(err)
		}
	}
}
