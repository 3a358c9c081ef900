package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// maxID bounds ids, so that a hostile file cannot ask for memory. The largest
// vocabularies in use have 262,144 tokens.
const maxID = 1<<22 - 1

// file is tokenizer.json, as far as it is used.
type file struct {
	Version       string       `json:"version"`
	Truncation    *struct{}    `json:"truncation"`
	Padding       *struct{}    `json:"padding"`
	AddedTokens   []AddedToken `json:"added_tokens"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Decoder       *component   `json:"decoder"`
	Model         model        `json:"model"`
}

type model struct {
	Type         string           `json:"type"`
	Dropout      *float64         `json:"dropout"`
	UnkToken     *string          `json:"unk_token"`
	Prefix       *string          `json:"continuing_subword_prefix"`
	Suffix       *string          `json:"end_of_word_suffix"`
	FuseUnk      bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	IgnoreMerges bool             `json:"ignore_merges"`
	Vocab        map[string]int32 `json:"vocab"`
	Merges       mergeList        `json:"merges"`
}

// component is a normalizer, pre-tokenizer, post-processor or decoder: the union of
// the fields of those that are known.
type component struct {
	Type             string `json:"type"`
	AddPrefixSpace   *bool  `json:"add_prefix_space,omitempty"`
	TrimOffsets      *bool  `json:"trim_offsets,omitempty"`
	UseRegex         *bool  `json:"use_regex,omitempty"`
	IndividualDigits *bool  `json:"individual_digits,omitempty"`
	Pattern          *struct {
		Regex string `json:"Regex"`
	} `json:"pattern,omitempty"`
	Behavior      string                     `json:"behavior,omitempty"`
	Invert        *bool                      `json:"invert,omitempty"`
	PreTokenizers []component                `json:"pretokenizers,omitempty"`
	Normalizers   []component                `json:"normalizers,omitempty"`
	Processors    []component                `json:"processors,omitempty"`
	Single        []templatePart             `json:"single,omitempty"`
	Pair          []templatePart             `json:"pair,omitempty"`
	SpecialTokens map[string]templateSpecial `json:"special_tokens,omitempty"`
}

// templatePart is the text or a special token of a TemplateProcessing.
type templatePart struct {
	SpecialToken *templateID `json:"SpecialToken,omitempty"`
	Sequence     *templateID `json:"Sequence,omitempty"`
}

type templateID struct {
	ID     string `json:"id"`
	TypeID int    `json:"type_id"`
}

type templateSpecial struct {
	ID     string   `json:"id"`
	IDs    []int32  `json:"ids"`
	Tokens []string `json:"tokens"`
}

// mergeList reads both notations: ["a b", ...] and [["a","b"], ...].
type mergeList [][2]string

// UnmarshalJSON implements json.Unmarshaler.
func (m *mergeList) UnmarshalJSON(data []byte) error {
	if inner := bytes.TrimLeft(data[min(1, len(data)):], " \t\r\n"); bytes.HasPrefix(inner, []byte("[")) {
		var pairs [][]string
		if err := json.Unmarshal(data, &pairs); err != nil {
			return errors.New("merges must be pairs of tokens")
		}
		*m = make(mergeList, len(pairs))
		for i, p := range pairs {
			if len(p) != 2 {
				return fmt.Errorf("merge %d has %d tokens, want 2", i, len(p))
			}
			(*m)[i] = [2]string(p)
		}
		return nil
	}
	var lines []string
	if err := json.Unmarshal(data, &lines); err != nil {
		return errors.New("merges must be pairs of tokens")
	}
	if lines == nil {
		return nil
	}
	*m = make(mergeList, len(lines))
	for i, line := range lines {
		left, right, ok := strings.Cut(line, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return fmt.Errorf("merge %d is %q, want two tokens with a space between them", i, line)
		}
		(*m)[i] = [2]string{left, right}
	}
	return nil
}

// Parse reads the text of a tokenizer.json.
func Parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	return build(&f)
}

// build makes a tokenizer of a file, and says everything that is wrong with its rules.
func build(f *file) (*Tokenizer, error) {
	t := &Tokenizer{unknown: none, fuseUnknown: f.Model.FuseUnk, ignoreMerges: f.Model.IgnoreMerges}
	err := errors.Join(
		f.Model.check(),
		t.setNormalizer(f.Normalizer),
		t.setPreTokenizer(f.PreTokenizer),
		checkDecoder(f.Decoder),
	)
	if err != nil {
		return nil, err
	}
	if err := t.setVocabulary(f); err != nil {
		return nil, err
	}
	if err := t.setMerges(f); err != nil {
		return nil, err
	}
	t.setAdded(f.AddedTokens)
	if err := t.setPostProcessor(f.PostProcessor); err != nil {
		return nil, err
	}
	return t, nil
}

func (m *model) check() error {
	var all []error
	refuse := func(bad bool, what string) {
		if bad {
			all = append(all, errors.New("model: "+what+" is not supported"))
		}
	}
	refuse(m.Type != "" && m.Type != "BPE", fmt.Sprintf("type %q (only BPE)", m.Type))
	refuse(m.ByteFallback, "byte_fallback (SentencePiece vocabularies)")
	refuse(m.Dropout != nil && *m.Dropout != 0, "dropout")
	refuse(m.Prefix != nil && *m.Prefix != "", "continuing_subword_prefix")
	refuse(m.Suffix != nil && *m.Suffix != "", "end_of_word_suffix")
	if len(m.Vocab) == 0 {
		all = append(all, errors.New("model: has no vocab"))
	}
	if m.Merges == nil {
		all = append(all, errors.New("model: has no merges"))
	}
	return errors.Join(all...)
}

func (t *Tokenizer) setNormalizer(c *component) error {
	switch {
	case c == nil:
	case c.Type == "NFC":
		t.nfc = true
	case c.Type == "Sequence":
		for i := range c.Normalizers {
			if err := t.setNormalizer(&c.Normalizers[i]); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("normalizer %q is not supported (only NFC)", c.Type)
	}
	return nil
}

// setPreTokenizer recognises the pattern by its regular expression.
func (t *Tokenizer) setPreTokenizer(c *component) error {
	if c == nil {
		return errors.New("has no pre_tokenizer; only byte-level ones are supported")
	}
	stages := []component{*c}
	if c.Type == "Sequence" {
		stages = c.PreTokenizers
	}
	isSet := func(b *bool, absent bool) bool { return b == nil && absent || b != nil && *b }
	var found []string
	for _, s := range stages {
		switch {
		case s.Type == "ByteLevel" && isSet(s.AddPrefixSpace, true):
			return errors.New("pre_tokenizer ByteLevel: add_prefix_space is not supported")
		case s.Type == "ByteLevel" && isSet(s.UseRegex, true):
			found = append(found, "regex", "bytes")
		case s.Type == "ByteLevel":
			found = append(found, "bytes")
		case s.Type == "Digits" && isSet(s.IndividualDigits, false):
			found = append(found, "digits")
		case s.Type == "Split" && s.Behavior == "Isolated" && !isSet(s.Invert, false) && s.Pattern != nil:
			found = append(found, s.Pattern.Regex)
		default:
			return fmt.Errorf("pre_tokenizer %q with these settings is not supported", s.Type)
		}
	}
	for pattern, want := range map[Pattern][]string{
		GPT2:    {"regex", "bytes"},
		SmolLM2: {"digits", "regex", "bytes"},
		Qwen2:   {qwen2Regex, "bytes"},
		Llama3:  {llama3Regex, "bytes"},
	} {
		if slices.Equal(found, want) {
			t.style = pattern
			t.scan, t.digits, _ = pattern.scanner()
			return nil
		}
	}
	return fmt.Errorf("pre_tokenizer %q is not one of GPT-2, SmolLM2, Qwen2/3 and Llama 3", found)
}

func checkDecoder(c *component) error {
	if c == nil || c.Type == "ByteLevel" {
		return nil
	}
	return fmt.Errorf("decoder %q is not supported (only ByteLevel)", c.Type)
}

// setVocabulary fills the tables between ids and bytes.
func (t *Tokenizer) setVocabulary(f *file) error {
	contents := map[int32]string{} // tokenizer.json's text of an id
	enter := func(content string, id int32) error {
		if id < 0 || id > maxID {
			return fmt.Errorf("token %q has id %d, outside 0 to %d", content, id, maxID)
		}
		if other, taken := contents[id]; taken && other != content {
			return fmt.Errorf("tokens %q and %q have the same id %d", min(content, other), max(content, other), id)
		}
		contents[id] = content
		return nil
	}
	for content, id := range f.Model.Vocab {
		if err := enter(content, id); err != nil {
			return err
		}
	}
	size := int32(len(f.Model.Vocab))
	for _, token := range f.AddedTokens {
		if id, ok := f.Model.Vocab[token.Content]; ok && id != token.ID {
			return fmt.Errorf("added token %q has id %d, but %d in the vocab", token.Content, token.ID, id)
		}
		if err := enter(token.Content, token.ID); err != nil {
			return err
		}
	}
	for id := range contents {
		size = max(size, id+1)
	}
	t.pieces, t.ids = make([]string, size), make(map[string]int32, len(f.Model.Vocab))
	t.whole = make([]atomic.Uint32, size)
	for i := range t.byteIDs {
		t.byteIDs[i] = none
	}
	chars := newAlphabet()
	for content, id := range f.Model.Vocab {
		raw, ok := chars.decode(content)
		if !ok { // not made of bytes: only an added token can give it
			t.pieces[id] = content
			continue
		}
		t.pieces[id], t.ids[raw] = raw, id
		if len(raw) == 1 {
			t.byteIDs[raw[0]] = id
		}
	}
	if f.Model.UnkToken != nil {
		id, ok := f.Model.Vocab[*f.Model.UnkToken]
		if !ok {
			return fmt.Errorf("unk_token %q is not in the vocab", *f.Model.UnkToken)
		}
		t.unknown = id
	}
	return nil
}

func (t *Tokenizer) setMerges(f *file) error {
	t.merges = newPairs(len(f.Model.Merges))
	for rank, m := range f.Model.Merges {
		var ids [3]int32
		for i, content := range []string{m[0], m[1], m[0] + m[1]} {
			id, ok := f.Model.Vocab[content]
			if !ok {
				return fmt.Errorf("merge %d of %q and %q: %q is not in the vocab", rank, m[0], m[1], content)
			}
			ids[i] = id
		}
		t.merges.set(pairOf(ids[0], ids[1]), merged{rank: int32(rank), id: ids[2]})
	}
	return nil
}

// setAdded builds what finds added tokens in a text.
func (t *Tokenizer) setAdded(tokens []AddedToken) {
	t.added = slices.SortedStableFunc(slices.Values(tokens), func(a, b AddedToken) int { return cmp.Compare(a.ID, b.ID) })
	t.addedIDs, t.special = map[string]int32{}, map[int32]bool{}
	var raw, normalized []AddedToken
	for _, token := range t.added {
		t.pieces[token.ID] = token.Content
		t.addedIDs[token.Content] = token.ID
		if token.Special {
			t.special[token.ID] = true
		}
		if token.Normalized {
			normalized = append(normalized, token)
		} else {
			raw = append(raw, token)
		}
	}
	content := func(token AddedToken) string { return token.Content }
	afterNFC := func(token AddedToken) string {
		if t.nfc {
			return composed(token.Content)
		}
		return token.Content
	}
	t.raw, t.normalized = newTrie(raw, content), newTrie(normalized, afterNFC)
}

// setPostProcessor keeps the special tokens of a template for one text.
func (t *Tokenizer) setPostProcessor(c *component) error {
	switch {
	case c == nil || c.Type == "ByteLevel": // about offsets, which we do not have
	case c.Type == "Sequence":
		for i := range c.Processors {
			if err := t.setPostProcessor(&c.Processors[i]); err != nil {
				return err
			}
		}
	case c.Type == "TemplateProcessing":
		into := &t.prefix
		for _, part := range c.Single {
			if part.SpecialToken == nil {
				into = &t.suffix
				continue
			}
			special, ok := c.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return fmt.Errorf("post_processor: %q is not among its special_tokens", part.SpecialToken.ID)
			}
			for _, id := range special.IDs {
				if t.Token(id) == "" {
					return fmt.Errorf("post_processor: %q is id %d, which no token has", part.SpecialToken.ID, id)
				}
			}
			*into = append(*into, special.IDs...)
		}
	default:
		return fmt.Errorf("post_processor %q is not supported", c.Type)
	}
	return nil
}
