package gpu

// PageSize is the tokens of a KV page, and the chunk of keys that attention
// walks at a time: both the same, so that a key's place in the sum depends on
// its position alone.
const PageSize = 16

// Step is one forward pass for rollouts. Prefill, chunked prefill and decode
// are the same call: R rows, each a token at a position of a sequence, whose key
// and value are written into a slot of the arena and which attends to all
// positions up to its own. Positions that a row attends to were written by an
// earlier step or are rows of this one, in any order.
type Step struct {
	Tokens    []int32 // (R) token ids, below V
	Positions []int32 // (R) from 0, below the context length
	// Slots is where a row's key and value go: page·PageSize + position%PageSize,
	// with page = Tables[Sequences[r]][position/PageSize]. Each slot once a step.
	Slots     []int32
	Sequences []int32   // (R) index into Tables
	Tables    [][]int32 // (B) page ids of a sequence, in order of positions
	// Wanted are the rows whose logits come back, Scale (as many) their
	// 1/temperature for LSE; nil means 1.
	Wanted []int32
	Scale  []float32
	// Draws say how the tokens of the first so many wanted rows are drawn, on a device that can
	// (Runner.Draws); only the others' logits come back.
	Draws []Draw
	// Adapters are the runs of rows that go through an adapter, ascending and
	// apart; rows of no run go through the base weights alone.
	Adapters []Span
}

// Span is the rows From..To-1, which go through the adapter of this name.
type Span struct {
	Adapter  string
	From, To int
}

// Logits is what a step gives back; its slices are used again by the next.
type Logits struct {
	V      int
	Values []float32 // (W,V) logits of the wanted rows that are not drawn, not scaled
	LSE    []float32 // (W) log Σ exp(scale·logits)
	Drawn  []Drawn   // of the rows that are
}

// Row is the logits of the i-th wanted row, counted from the first that is not drawn.
func (l *Logits) Row(i int) []float32 { return l.Values[i*l.V : (i+1)*l.V] }

// RunnerConfig is how much memory rollouts may take, all of it allocated by
// NewRunner.
type RunnerConfig struct {
	Pages     int // pages of the KV arena
	Rows      int // most rows of a step
	Wanted    int // most rows of a step whose logits are wanted
	Sequences int // most sequences of a step
	Context   int // most tokens of a sequence
	// KV is how the arena holds keys and values, Activations the type of activations. NewRunner asks the
	// device (KVType, ActivationType): they are for plans.
	KV, Activations DType
}
