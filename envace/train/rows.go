package train

import (
	"fmt"
	"slices"

	"understudy/envace"
	"understudy/gpu"
)

// span is the tokens From..To-1 of a row that were sampled, as output Output.
type span struct{ from, to, output int }

// row is a sequence to train on: the sampled tokens carry loss, the others are
// what they were conditioned on.
type row struct {
	tokens  []int32
	sampled []span
}

// rowsOf makes the rows of a trajectory's outputs, numbered from first. An output
// whose prompt begins with the whole of the row before it continues that row: the
// tokens are the very ones that the engine read and sampled.
func rowsOf(outputs []*envace.Output, first int) []row {
	var rows []row
	for i, o := range outputs {
		last := len(rows) - 1
		if last < 0 || len(o.Prompt) < len(rows[last].tokens) || !slices.Equal(o.Prompt[:len(rows[last].tokens)], rows[last].tokens) {
			rows = append(rows, row{})
			last++
		}
		r := &rows[last]
		r.tokens = append(slices.Clone(o.Prompt), o.Tokens...)
		r.sampled = append(r.sampled, span{len(o.Prompt), len(r.tokens), first + i})
	}
	return rows
}

// micro is a micro-batch: packed rows, and which output each target belongs to.
type micro struct {
	gpu.Batch
	spans []span // of the packed tokens' targets: from and to index Targets
}

// pack fills micro-batches of at most limit tokens, in order. Only outputs that
// keep says so become targets; a row without any is left out. A row over the limit
// is an error that says what to raise.
func pack(rows []row, limit int, temperature float64, keep func(output int) bool) ([]micro, error) {
	var batches []micro
	for _, r := range rows {
		if !slices.ContainsFunc(r.sampled, func(s span) bool { return keep(s.output) }) {
			continue
		}
		if len(r.tokens) > limit {
			return nil, fmt.Errorf("a trajectory has %d tokens, a micro-batch holds %d: raise micro_tokens", len(r.tokens), limit)
		}
		if n := len(batches); n == 0 || len(batches[n-1].Tokens)+len(r.tokens) > limit {
			batches = append(batches, micro{})
		}
		batches[len(batches)-1].add(r, temperature, keep)
	}
	for i := range batches { // the rollouts of a prompt compute it once, with the same bits
		batches[i].Batch = *batches[i].Share()
	}
	return batches, nil
}

func (m *micro) add(r row, temperature float64, keep func(output int) bool) {
	at := int32(len(m.Tokens))
	m.Tokens = append(m.Tokens, r.tokens...)
	m.Lengths = append(m.Lengths, int32(len(r.tokens)))
	for _, s := range r.sampled {
		if !keep(s.output) {
			continue
		}
		from := len(m.Targets)
		for p := s.from; p < s.to; p++ { // a token is predicted by the one before it
			m.Rows = append(m.Rows, at+int32(p)-1)
			m.Targets = append(m.Targets, r.tokens[p])
			m.Scale = append(m.Scale, float32(1/temperature))
		}
		m.spans = append(m.spans, span{from, len(m.Targets), s.output})
	}
}
