package gpu

import (
	"fmt"
	"slices"
)

// Batch is a micro-batch: sequences packed back to back, none of which sees
// another but those that it continues, and the tokens to score.
type Batch struct {
	Tokens  []int32 // (T)
	Lengths []int32 // tokens of each sequence, T together
	// Parents, unless nil, says for each sequence which earlier one it continues,
	// or −1: K rollouts of a prompt are K+1 sequences, and the prompt is computed
	// once. The bits are those of K whole sequences.
	Parents []int32
	// Rows and Targets (M): the logits of row Rows[i] are read for token
	// Targets[i], usually the one that follows. A row may be read more than once:
	// the last of a prompt, for the first token of each rollout.
	Rows, Targets []int32
	Scale         []float32 // (M) 1/temperature; nil means 1
	Adapters      []Span    // of rows, as in Step
}

// layout is where a batch's rows stand.
type layout struct {
	positions []int32 // (T) within the sequence and those that it continues
	starts    []int32 // (T) first row of the row's sequence, or (E) of its expanded one
	// With parents, every sequence that none continues is expanded: rows (E) are
	// those of all that it continues, then its own; first (T) is where a row
	// first stands among them.
	rows, first []int32
	asked       []int32 // (E) 1 where a row first stands
}

// layout computes positions, and the expanded sequences when they are no more
// than most tokens.
func (b *Batch) layout(most int) (layout, error) {
	var x layout
	begin, row := make([]int32, len(b.Lengths)), make([]int32, len(b.Lengths)) // a sequence's first position, and row
	for i, n := range b.Lengths {
		row[i] = int32(len(x.positions))
		if b.Parents != nil && b.Parents[i] >= 0 {
			begin[i] = begin[b.Parents[i]] + b.Lengths[b.Parents[i]]
		}
		for p := range n {
			x.positions, x.starts = append(x.positions, begin[i]+p), append(x.starts, row[i])
		}
	}
	if b.Parents == nil {
		return x, nil
	}
	x.starts, x.first = nil, slices.Repeat([]int32{-1}, len(x.positions))
	expanded := 0
	for i, n := range b.Lengths {
		if slices.Contains(b.Parents, int32(i)) {
			continue
		}
		if expanded += int(begin[i] + n); expanded > most {
			return x, fmt.Errorf("more than %d tokens, when each sequence is counted with those it continues: this trainer takes as many (TrainerConfig.Expanded)", most)
		}
		x.expand(b, row, i)
	}
	return x, nil
}

// expand appends sequence i with all that it continues.
func (x *layout) expand(b *Batch, row []int32, i int) {
	var chain []int32
	for s := int32(i); s >= 0; s = b.Parents[s] {
		chain = append(chain, s)
	}
	start := int32(len(x.rows))
	for _, s := range slices.Backward(chain) {
		for p := range b.Lengths[s] {
			asked := int32(0)
			if r := row[s] + p; x.first[r] < 0 {
				x.first[r], asked = int32(len(x.rows)), 1
			}
			x.asked = append(x.asked, asked)
			x.rows, x.starts = append(x.rows, row[s]+p), append(x.starts, start)
		}
	}
}

// upload moves a batch's indices to the device.
func (t *Trainer) upload(b *Batch, x layout) {
	scale := b.Scale
	if scale == nil {
		scale = slices.Repeat([]float32{1}, len(b.Rows))
	}
	t.positions = t.at.Slice(0, len(b.Tokens))
	t.dev.UploadInts(t.tokens, b.Tokens)
	t.dev.UploadInts(t.at, x.positions)
	if t.tree.n = len(x.rows); t.tree.shared() {
		t.dev.UploadInts(t.tree.starts, x.starts)
		t.dev.UploadInts(t.tree.rows, x.rows)
		t.dev.UploadInts(t.tree.first, x.first)
		t.dev.UploadInts(t.tree.asked, x.asked)
	} else {
		t.dev.UploadInts(t.starts, x.starts)
	}
	t.dev.UploadInts(t.rows, b.Rows)
	t.dev.UploadInts(t.targets, b.Targets)
	t.dev.Upload(t.loss.Scale, scale)
}

// check refuses a batch that would read or write outside of its memory.
func (t *Trainer) check(b *Batch) ([]adapterRows, layout, error) {
	rows, sum := len(b.Tokens), 0
	var none layout
	switch {
	case rows == 0 || rows > t.Tokens:
		return nil, none, fmt.Errorf("%d tokens: this trainer takes 1 to %d a micro-batch", rows, t.Tokens)
	case len(b.Rows) == 0 || len(b.Rows) > t.Targets || len(b.Targets) != len(b.Rows):
		return nil, none, fmt.Errorf("%d rows to score for %d targets: this trainer takes 1 to %d of both", len(b.Rows), len(b.Targets), t.Targets)
	case b.Scale != nil && len(b.Scale) != len(b.Rows):
		return nil, none, fmt.Errorf("%d scales for %d targets", len(b.Scale), len(b.Rows))
	case b.Parents != nil && len(b.Parents) != len(b.Lengths):
		return nil, none, fmt.Errorf("%d parents for %d sequences", len(b.Parents), len(b.Lengths))
	}
	for i, n := range b.Lengths {
		if n < 1 || int(n) > t.Context {
			return nil, none, fmt.Errorf("sequence %d has %d tokens: the model takes 1 to %d", i, n, t.Context)
		}
		if b.Parents != nil && (b.Parents[i] < -1 || int(b.Parents[i]) >= i) {
			return nil, none, fmt.Errorf("sequence %d continues %d: it may continue an earlier one, or -1", i, b.Parents[i])
		}
		sum += int(n)
	}
	if sum != rows {
		return nil, none, fmt.Errorf("the sequences have %d tokens together, the batch %d", sum, rows)
	}
	if err := t.checkTokens(b); err != nil {
		return nil, none, err
	}
	x, err := b.layout(t.Expanded)
	if err != nil {
		return nil, none, err
	}
	if longest := int(slices.Max(x.positions)) + 1; longest > t.Context {
		return nil, none, fmt.Errorf("a sequence has %d tokens with those it continues: the model takes %d", longest, t.Context)
	}
	spans, err := t.adapterRows(b.Adapters, rows, t.rank)
	return spans, x, err
}

func (t *Trainer) checkTokens(b *Batch) error {
	for i, token := range b.Tokens {
		if token < 0 || int(token) >= t.Vocab {
			return fmt.Errorf("token %d in row %d: the model has %d", token, i, t.Vocab)
		}
	}
	for i, row := range b.Rows {
		switch target := b.Targets[i]; {
		case row < 0 || int(row) >= len(b.Tokens):
			return fmt.Errorf("row %d to score: the batch has %d", row, len(b.Tokens))
		case target < 0 || int(target) >= t.Vocab:
			return fmt.Errorf("target %d of row %d: the model has %d tokens", target, row, t.Vocab)
		case b.Scale != nil && !(b.Scale[i] > 0):
			return fmt.Errorf("scale %v of row %d: it must be positive", b.Scale[i], row)
		}
	}
	return nil
}
