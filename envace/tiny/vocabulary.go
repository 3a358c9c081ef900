package tiny

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
)

// The words of the language itself. They come first, in this order.
const (
	wordAct      = "<act>"
	wordRehearse = "<rehearse>"
	wordEnd      = "<end>"
	wordUnknown  = "<unknown>" // any word that was never seen
	wordDone     = "done"      // ACT's reply: nothing more to do
)

func ownWords() []string {
	return []string{wordAct, wordRehearse, wordEnd, wordUnknown, wordDone, "{", "}", "[", "]", "?", ">", ";", "else", "\n", "true", "false", "error", "code"}
}

// Vocabulary is the closed list of words; a word's place is its token id.
type Vocabulary struct {
	words []string
	ids   map[string]int32
}

// numbers are the words 0 to numbers-1: amounts of a domain that is made for it.
const numbers = 200

// Learn collects the words of an environment: of its tools' schemas, its error
// families, n of its tasks, and the answers to their solutions.
func Learn(ctx context.Context, env audit.Environment, seed uint64, n int) (*Vocabulary, error) {
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, err
	}
	tasker, ok := env.(audit.Tasker)
	if !ok {
		return nil, fmt.Errorf("%s has no tasks to learn the words from", env.Info().Name)
	}
	tasks, err := tasker.Tasks(ctx, seed, n)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, tool := range tools {
		found[tool.Name] = true
		collect(found, tool.Input)
	}
	for _, family := range audit.Families() {
		found[string(family)] = true
	}
	for _, task := range tasks {
		for _, word := range promptWords(task.Prompt) {
			found[word] = true
		}
		if err := solve(ctx, env, task, found); err != nil {
			return nil, err
		}
	}
	return newVocabulary(found), nil
}

// solve collects the words of the answers to a task's solution.
func solve(ctx context.Context, env audit.Environment, task audit.Task, found map[string]bool) error {
	session, err := env.Open(ctx, audit.Start{Task: task.ID})
	if err != nil {
		return err
	}
	for _, call := range task.Solution {
		seen, err := session.Call(ctx, call)
		if err != nil {
			return errors.Join(err, session.Close())
		}
		words, _ := jsonWords(call.Arguments) // what cannot be written has no words
		answer, _ := jsonWords(seen.Raw)
		for _, word := range append(words, answer...) {
			found[word] = true
		}
	}
	return session.Close()
}

// collect gathers the property names and enum values of a schema.
func collect(found map[string]bool, schema json.RawMessage) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Items      json.RawMessage            `json:"items"`
		Enum       []string                   `json:"enum"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return
	}
	for name, property := range s.Properties {
		found[name] = true
		collect(found, property)
	}
	for _, value := range s.Enum {
		found[value] = true
	}
	if s.Items != nil {
		collect(found, s.Items)
	}
}

// newVocabulary orders the words: the language's own, the numbers, the others.
func newVocabulary(found map[string]bool) *Vocabulary {
	words := ownWords()
	for i := range numbers {
		words = append(words, strconv.Itoa(i))
	}
	known := map[string]bool{"": true}
	for _, word := range words {
		known[word] = true
	}
	var others []string
	for word := range found {
		if _, err := strconv.ParseFloat(word, 64); !known[word] && err != nil && !strings.ContainsAny(word, " \t\n") {
			others = append(others, word)
		}
	}
	slices.Sort(others)
	return index(append(words, others...))
}

func index(words []string) *Vocabulary {
	v := &Vocabulary{words: words, ids: make(map[string]int32, len(words))}
	for i, word := range words {
		v.ids[word] = int32(i)
	}
	return v
}

// Size is the number of words.
func (v *Vocabulary) Size() int { return len(v.words) }

// ID is a word's token id; a word that was never seen is <unknown>.
func (v *Vocabulary) ID(word string) int32 {
	if id, found := v.ids[word]; found {
		return id
	}
	return v.ids[wordUnknown]
}

// Encode is the ids of words.
func (v *Vocabulary) Encode(words []string) []int32 {
	ids := make([]int32, len(words))
	for i, word := range words {
		ids[i] = v.ID(word)
	}
	return ids
}

// Decode is the words of ids; an id that no word has is <unknown>.
func (v *Vocabulary) Decode(ids []int32) []string {
	words := make([]string, len(ids))
	for i, id := range ids {
		if words[i] = wordUnknown; id >= 0 && int(id) < len(v.words) {
			words[i] = v.words[id]
		}
	}
	return words
}

// End is the token that ends an output.
func (v *Vocabulary) End() int32 { return v.ids[wordEnd] }

// Digest identifies the words and their numbers.
func (v *Vocabulary) Digest() audit.Digest { return sha256.Sum256([]byte(strings.Join(v.words, "\n"))) }

// Save writes the words to a file; Read reads them.
func (v *Vocabulary) Save(path string) error {
	text, err := json.Marshal(v.words)
	if err != nil {
		return fmt.Errorf("encode the vocabulary: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("save the vocabulary: %w", err)
	}
	return nil
}

// Read reads a vocabulary that Save wrote. One whose own words are missing, moved
// or repeated is an error that names the file.
func Read(path string) (*Vocabulary, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the vocabulary: %w", err)
	}
	var words []string
	if err := json.Unmarshal(text, &words); err != nil {
		return nil, fmt.Errorf("read the vocabulary %s: %w", path, err)
	}
	own := ownWords()
	if len(words) < len(own) || !slices.Equal(words[:len(own)], own) {
		return nil, fmt.Errorf("%s is no vocabulary of this version: it does not begin with %v", path, own[:4])
	}
	v := index(words)
	if len(v.ids) != len(words) {
		return nil, fmt.Errorf("%s has a word twice", path)
	}
	return v, nil
}
