package tokenizer

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"unicode/utf8"
)

// TrainConfig describes a vocabulary to be trained.
type TrainConfig struct {
	Pattern Pattern // how words are cut; GPT2 if empty
	Size    int     // tokens in all: added ones, 256 bytes, and merges as room and texts allow
	NFC     bool    // compose characters first, as Qwen does
	// Added are tokens that stay single and get the first ids, in this order: control
	// tokens (Special), and identifiers, keys or enum values (SingleWord, so that longer
	// words are not cut at them). Their ID is ignored.
	Added []AddedToken
	// MinCount is how often a pair must occur to be merged; 2 if 0.
	MinCount int
}

// Train learns merges: again and again the most frequent pair of neighbours becomes a
// token (of equally frequent ones the one with the lower ids), until the vocabulary is
// full or no pair is frequent enough. The same texts give the same vocabulary.
func Train(texts iter.Seq[string], config TrainConfig) (*Tokenizer, error) {
	f, err := config.start()
	if err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	t, err := build(f)
	if err != nil {
		return nil, fmt.Errorf("train tokenizer: %w", err)
	}
	counts := map[string]int{}
	for text := range texts {
		t.countWords(text, counts)
	}
	l := newLearner(t, counts)
	chars, done := newAlphabet(), map[pair]int32{}
	for len(f.Model.Vocab) < config.Size {
		p, ok := l.best(cmp.Or(config.MinCount, 2))
		if !ok {
			break
		}
		if id, again := done[p]; again { // its left or right came about another way
			l.merge(p, id)
			continue
		}
		left, right := int32(p>>32), int32(uint32(p))
		text := [2]string{chars.encode(l.pieces[left]), chars.encode(l.pieces[right])}
		id, known := f.Model.Vocab[text[0]+text[1]] // an added token, or reached another way
		if !known {
			id = int32(len(l.pieces))
			f.Model.Vocab[text[0]+text[1]] = id
			l.pieces = append(l.pieces, l.pieces[left]+l.pieces[right])
		}
		f.Model.Merges = append(f.Model.Merges, text)
		done[p] = id
		l.merge(p, id)
	}
	return build(f)
}

// start is the file of a vocabulary without merges.
func (c TrainConfig) start() (*file, error) {
	pattern := cmp.Or(c.Pattern, GPT2)
	if _, _, err := pattern.scanner(); err != nil {
		return nil, err
	}
	f := &file{
		PreTokenizer: pattern.component(),
		Model:        model{Vocab: map[string]int32{}, Merges: mergeList{}},
	}
	if c.NFC {
		f.Normalizer = &component{Type: "NFC"}
	}
	for i, token := range c.Added {
		if err := checkContent(token.Content); err != nil {
			return nil, err
		}
		if _, twice := f.Model.Vocab[token.Content]; twice {
			return nil, fmt.Errorf("added token %q is there twice", token.Content)
		}
		if !utf8.ValidString(token.Content) {
			return nil, fmt.Errorf("added token %q is not valid UTF-8", token.Content)
		}
		token.ID = int32(i)
		f.AddedTokens = append(f.AddedTokens, token)
		f.Model.Vocab[token.Content] = token.ID
	}
	for _, char := range newAlphabet().chars {
		if _, added := f.Model.Vocab[string(char)]; !added {
			f.Model.Vocab[string(char)] = int32(len(f.Model.Vocab))
		}
	}
	if c.Size < len(f.Model.Vocab) {
		return nil, fmt.Errorf("size %d is less than the %d added tokens and bytes", c.Size, len(f.Model.Vocab))
	}
	if c.Size > maxID {
		return nil, errors.New("size is too large")
	}
	return f, nil
}

// countWords counts the words that merges would be applied to.
func (t *Tokenizer) countWords(text string, counts map[string]int) {
	text, _ = join([]Part{{Text: text}})
	t.sections(nil, text, nil, func(dst []int32, section string, _ int) []int32 {
		t.cut(section, func(word string) { counts[word]++ })
		return dst
	})
}

// learner holds all words as they are merged so far.
type learner struct {
	words  []trainWord
	counts map[pair]int
	where  map[pair][]int32 // words that may hold the pair
	queue  frequencies
	pieces []string
}

type trainWord struct {
	symbols []int32
	count   int
}

func newLearner(t *Tokenizer, counts map[string]int) *learner {
	l := &learner{counts: map[pair]int{}, where: map[pair][]int32{}, pieces: slices.Clone(t.pieces)}
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		symbols := make([]int32, len(word))
		for i := range symbols {
			symbols[i] = t.byteIDs[word[i]]
		}
		l.words = append(l.words, trainWord{symbols, counts[word]})
		for i := range len(symbols) - 1 {
			l.change(pairOf(symbols[i], symbols[i+1]), counts[word], len(l.words)-1)
		}
	}
	for p, n := range l.counts {
		l.queue = append(l.queue, frequency{p, n})
	}
	heap.Init(&l.queue)
	return l
}

// change counts a pair in a word up or down.
func (l *learner) change(p pair, by, word int) {
	l.counts[p] += by
	if by > 0 {
		if at := l.where[p]; len(at) == 0 || at[len(at)-1] != int32(word) {
			l.where[p] = append(at, int32(word))
		}
	}
}

// best is the most frequent pair, false when none reaches the count.
func (l *learner) best(atLeast int) (pair, bool) {
	for len(l.queue) > 0 {
		top := l.queue[0]
		if now := l.counts[top.pair]; now != top.count {
			if now <= 0 {
				heap.Pop(&l.queue)
				continue
			}
			l.queue[0].count = now
			heap.Fix(&l.queue, 0)
			continue
		}
		heap.Pop(&l.queue)
		return top.pair, top.count >= atLeast
	}
	return 0, false
}

// merge replaces the pair by a token in every word.
func (l *learner) merge(p pair, id int32) {
	left, right := int32(p>>32), int32(uint32(p))
	touched := map[pair]bool{}
	for _, w := range l.where[p] {
		word := &l.words[w]
		s := word.symbols
		for i := 0; i+1 < len(s); i++ {
			if s[i] != left || s[i+1] != right {
				continue
			}
			if i > 0 {
				l.change(pairOf(s[i-1], left), -word.count, int(w))
				l.change(pairOf(s[i-1], id), word.count, int(w))
				touched[pairOf(s[i-1], id)] = true
			}
			if i+2 < len(s) {
				l.change(pairOf(right, s[i+2]), -word.count, int(w))
				l.change(pairOf(id, s[i+2]), word.count, int(w))
				touched[pairOf(id, s[i+2])] = true
			}
			s[i] = id
			s = slices.Delete(s, i+1, i+2)
		}
		word.symbols = s
	}
	delete(l.counts, p)
	delete(l.where, p)
	for q := range touched {
		heap.Push(&l.queue, frequency{q, l.counts[q]})
	}
}

// frequency is a pair in the learner's queue; its count may be outdated, never too low.
type frequency struct {
	pair  pair
	count int
}

type frequencies []frequency

func (f frequencies) Len() int { return len(f) }
func (f frequencies) Less(i, j int) bool {
	return f[i].count > f[j].count || f[i].count == f[j].count && f[i].pair < f[j].pair
}
func (f frequencies) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *frequencies) Push(x any)   { *f = append(*f, x.(frequency)) }
func (f *frequencies) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}
