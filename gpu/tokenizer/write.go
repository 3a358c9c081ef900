package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"understudy/audit/atomicfile"
)

// Save writes a tokenizer.json, or one into a folder; a reader sees the old file or the
// new one, never a part.
func (t *Tokenizer) Save(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, FileName)
	}
	data, err := t.MarshalJSON()
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'), 0o644)
}

// MarshalJSON writes the tokenizer as tokenizer.json, in a form that the Rust library
// loads with the same ids. Equal tokenizers give equal bytes.
func (t *Tokenizer) MarshalJSON() ([]byte, error) {
	f := file{
		Version:       "1.0",
		AddedTokens:   t.added,
		PreTokenizer:  t.style.component(),
		PostProcessor: t.template(),
		Decoder:       byteLevel(true),
		Model: model{
			Type: "BPE", FuseUnk: t.fuseUnknown, IgnoreMerges: t.ignoreMerges,
			Vocab: map[string]int32{}, Merges: mergeList{},
		},
	}
	if f.AddedTokens == nil {
		f.AddedTokens = []AddedToken{}
	}
	if t.nfc {
		f.Normalizer = &component{Type: "NFC"}
	}
	chars := newAlphabet()
	text := make([]string, len(t.pieces))
	for id, piece := range t.pieces {
		_, added := t.addedIDs[piece]
		switch own, made := t.ids[piece]; {
		case made && own == int32(id):
			text[id] = chars.encode(piece)
		case piece == "", added && isBytes(chars, piece): // no token, or one of added_tokens alone
			continue
		default:
			text[id] = piece
		}
		f.Model.Vocab[text[id]] = int32(id)
	}
	if t.unknown != none {
		f.Model.UnkToken = &t.pieces[t.unknown]
	}
	for _, p := range t.merges.sorted() {
		f.Model.Merges = append(f.Model.Merges, [2]string{text[p>>32], text[uint32(p)]})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("write tokenizer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func isBytes(chars *alphabet, content string) bool {
	_, ok := chars.decode(content)
	return ok
}

func byteLevel(regex bool) *component {
	no := false
	return &component{Type: "ByteLevel", AddPrefixSpace: &no, TrimOffsets: &no, UseRegex: &regex}
}

// component is the pre-tokenizer that stands for the pattern.
func (p Pattern) component() *component {
	yes, no := true, false
	regex := func(pattern string) *component {
		split := component{Type: "Split", Behavior: "Isolated", Invert: &no, Pattern: &struct {
			Regex string `json:"Regex"`
		}{pattern}}
		return &component{Type: "Sequence", PreTokenizers: []component{split, *byteLevel(false)}}
	}
	switch p {
	case SmolLM2:
		digits := component{Type: "Digits", IndividualDigits: &yes}
		return &component{Type: "Sequence", PreTokenizers: []component{digits, *byteLevel(true)}}
	case Qwen2:
		return regex(qwen2Regex)
	case Llama3:
		return regex(llama3Regex)
	case GPT2:
	}
	return byteLevel(true)
}

// template is the post-processor that puts prefix and suffix around a text.
func (t *Tokenizer) template() *component {
	if len(t.prefix)+len(t.suffix) == 0 {
		return byteLevel(true)
	}
	c := &component{Type: "TemplateProcessing", SpecialTokens: map[string]templateSpecial{}}
	special := func(ids []int32) {
		for _, id := range ids {
			name := t.pieces[id]
			c.SpecialTokens[name] = templateSpecial{ID: name, IDs: []int32{id}, Tokens: []string{name}}
			c.Single = append(c.Single, templatePart{SpecialToken: &templateID{ID: name}})
		}
	}
	special(t.prefix)
	c.Single = append(c.Single, templatePart{Sequence: &templateID{ID: "A"}})
	special(t.suffix)
	second := make([]templatePart, len(c.Single))
	for i, part := range c.Single {
		if second[i] = part; part.Sequence != nil {
			second[i].Sequence = &templateID{ID: "B", TypeID: 1}
		}
	}
	c.Pair = slices.Concat(c.Single, second)
	return c
}

// checkContent refuses an added token that tokenizer.json could not tell from bytes: its
// characters are those that stand for bytes, and stand for others than their own.
func checkContent(content string) error {
	if content == "" {
		return fmt.Errorf("added token %q is empty", content)
	}
	if !strings.ContainsFunc(content, func(r rune) bool { return r >= 0x80 }) {
		return nil
	}
	if raw, ok := newAlphabet().decode(content); ok && raw != content {
		return fmt.Errorf("added token %q would be read as the bytes % x by other libraries; leave it to the merges", content, raw)
	}
	return nil
}
