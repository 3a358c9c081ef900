package gpu

import (
	"errors"
	"fmt"
)

// TrainerConfig is how much memory training takes, all of it allocated by
// NewTrainer, and what is trained.
type TrainerConfig struct {
	Tokens  int // most tokens of a micro-batch
	Targets int // most targets of a micro-batch; 0 means Tokens
	// LogitRows is how many rows of logits are held at a time; when targets
	// are more, Backward computes logits a second time. 0 means what fits in
	// 64 MiB, at least 64.
	LogitRows int
	// Checkpoint keeps only what enters each layer and computes the rest again
	// in Backward: a third more work, far less memory, the same bits.
	Checkpoint bool
	// ScoreOnly is for models that are only read, such as the reference policy
	// of a KL term: no gradients and one layer's activations.
	ScoreOnly bool
	// Expanded is the most rows of attention when sequences share beginnings
	// (Batch.Parents): each sequence counted with all that it continues. 0: no
	// sharing.
	Expanded int
	// Adapters are trained instead of the model's own weights, when there are any.
	Adapters []string
	// Activations is their type. NewTrainer asks the device (ActivationType): it is for plans.
	Activations DType
}

// Scores is what a batch's targets got. Its slices are used again by the next
// Forward.
type Scores struct {
	LogProb []float32 // (M)
	Entropy []float32 // (M) of the whole distribution, at the row's temperature
}

// Trainer is the memory of training: activations and gradients. A step is
//
//	for each micro-batch: Forward, then Backward with the loss's derivatives
//	AdamW.Update
type Trainer struct {
	TrainerConfig
	forward
	memory []Buffer
	rank   int

	acts  []layerActs // (L)
	last  Buffer      // (T,C) the residual that leaves the last layer
	final headActs    // of all targets
	loss  TokenLoss   // Logits for LogitRows rows, the rest for all targets
	tmp   gradActs
	tree  treeActs

	tokens, at, starts, rows, targets Buffer
	batch                             *Batch // of the last Forward, until Backward

	grads        weights // of the model's own weights; buffers are none when they are not trained
	trained      []trained
	adapterGrads map[*Adapter]*Params
}

// trained is a set of parameters with its gradients.
type trained struct {
	prefix        string // before names in the optimiser's files
	params, grads *Params
	changed       func()
}

// NewTrainer allocates all that training steps need.
func (m *Model) NewTrainer(c TrainerConfig) (*Trainer, error) {
	c = c.WithDefaults(m.Config)
	c.Activations = ActivationType(m.dev)
	if c.Tokens < 1 || c.Targets < 1 || c.LogitRows < 1 {
		return nil, errors.New("new trainer: tokens, targets and logit rows must be positive")
	}
	if !c.ScoreOnly && len(c.Adapters) == 0 && !m.Params.Trainable() {
		return nil, errors.New("new trainer: the weights are mapped from files: load the model as trainable, or train adapters")
	}
	t := &Trainer{TrainerConfig: c, forward: forward{Model: m}, rank: m.maxRank(), adapterGrads: map[*Adapter]*Params{}}
	p := t.plan()
	floats, ints, err := p.allocate(m.dev, fmt.Sprintf("training (%d tokens a micro-batch)", c.Tokens))
	if err != nil {
		return nil, err
	}
	t.memory = []Buffer{floats, ints}
	t.shareActs()
	m.dev.Upload(t.rope, m.ropeTable(min(c.Tokens, m.Context)))
	if err := t.allocateGrads(); err != nil {
		t.Free()
		return nil, err
	}
	return t, m.dev.Sync()
}

// plan lays out activations and scratch.
func (t *Trainer) plan() *plan {
	p, m, c := &plan{}, t.Model, t.TrainerConfig
	t.acts = make([]layerActs, m.Layers)
	for l := range t.acts {
		list := m.layerSizes(&t.acts[l], c.Activations)
		switch {
		case l > 0 && c.ScoreOnly:
			list = nil
		case l > 0 && c.Checkpoint:
			list = list[:1] // x
		}
		p.add(c.Tokens, list...)
	}
	p.add(c.Tokens, rowBuffer{&t.last, m.Width, F32}, rowBuffer{&t.branch, m.Width, F32})
	if t.rank > 0 {
		p.add(c.Tokens, rowBuffer{&t.low, t.rank, F32}, rowBuffer{&t.wide, m.maxN(), F32}, rowBuffer{&t.tmp.low, t.rank, F32})
	}
	p.add(c.Targets, m.headSizes(&t.final, c.Activations)...)
	p.add(c.Targets, rowBuffer{&t.loss.Scale, 1, F32}, rowBuffer{&t.loss.LSE, 1, F32}, rowBuffer{&t.loss.LogProb, 1, F32}, rowBuffer{&t.loss.Entropy, 1, F32})
	p.add(c.LogitRows, rowBuffer{&t.loss.Logits, m.Vocab, F32})
	p.add(min(c.Tokens, m.Context), rowBuffer{&t.rope, m.D, F32})
	p.addInts(c.Tokens, &t.tokens, &t.at, &t.starts)
	p.addInts(c.Targets, &t.rows, &t.targets)
	t.planTree(p)
	if !c.ScoreOnly {
		t.planGrads(p)
	}
	return p
}

// shareActs lets layers use the first one's memory where nothing is kept.
func (t *Trainer) shareActs() {
	if !t.Checkpoint && !t.ScoreOnly {
		return
	}
	for l := range t.acts {
		x := t.acts[l].x
		if t.ScoreOnly {
			x = t.acts[0].x
		}
		t.acts[l] = t.acts[0]
		t.acts[l].x = x
	}
}

// allocateGrads makes gradients of what is trained.
func (t *Trainer) allocateGrads() error {
	t.grads.layers = make([]layerWeights, t.Layers)
	if t.ScoreOnly {
		return nil
	}
	if len(t.Adapters) == 0 {
		grads, err := t.Params.like(t.dev, F32)
		if err != nil {
			return fmt.Errorf("gradients: %w", err)
		}
		t.grads = t.bind(grads)
		t.trained = append(t.trained, trained{"", t.Params, grads, t.Changed})
	}
	for _, name := range t.Adapters {
		a, ok := t.Adapter(name)
		if !ok {
			return fmt.Errorf("new trainer: the model has no adapter %q", name)
		}
		grads, err := a.Params.like(t.dev, F32)
		if err != nil {
			return fmt.Errorf("gradients of adapter %q: %w", name, err)
		}
		t.adapterGrads[a] = grads
		t.trained = append(t.trained, trained{name + ":", a.Params, grads, a.Changed})
	}
	return nil
}

// Free gives the memory back.
func (t *Trainer) Free() {
	for _, x := range t.trained {
		t.memory = append(t.memory, x.grads.Values)
	}
	for _, b := range t.memory {
		t.dev.Free(b)
	}
}

// Bytes is what the trainer's memory takes, without the model's weights.
func (t *Trainer) Bytes() int64 {
	var n int64
	for _, b := range t.memory {
		n += b.Memory.Bytes()
	}
	for _, x := range t.trained {
		n += x.grads.Values.Memory.Bytes()
	}
	return n
}

// Gradients are those of the model's own weights, or of an adapter by its name,
// summed over the micro-batches since they were last cleared; nil when it is
// not trained.
func (t *Trainer) Gradients(adapter string) *Params {
	for _, x := range t.trained {
		if x.prefix == "" && adapter == "" || x.prefix == adapter+":" {
			return x.grads
		}
	}
	return nil
}

// ClearGradients starts a new sum.
func (t *Trainer) ClearGradients() {
	for _, x := range t.trained {
		t.dev.Zero(x.grads.Values)
	}
}

// Forward scores the targets of a micro-batch. A batch that is refused has
// changed nothing.
func (t *Trainer) Forward(b *Batch, out *Scores) error {
	t.batch = nil
	spans, layout, err := t.check(b)
	if err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	t.spans = spans
	t.upload(b, layout)
	rows := len(b.Tokens)
	t.dev.Embed(t.acts[0].x.Slice(0, rows*t.Width), t.w.embed, t.tokens.Slice(0, rows))
	for l := range t.Layers {
		a := t.acts[l].rows(t.Config, rows)
		t.layer(l, &a)
		next := t.last
		if l+1 < t.Layers {
			next = t.acts[l+1].x
		}
		t.down(l, &a, next.Slice(0, a.x.Len))
	}
	t.head(len(b.Rows))
	out.LogProb, out.Entropy = grow(out.LogProb, len(b.Rows)), grow(out.Entropy, len(b.Rows))
	if err := errors.Join(t.dev.Download(out.LogProb, t.loss.LogProb), t.dev.Download(out.Entropy, t.loss.Entropy)); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	t.batch = b
	return nil
}

// layer is a layer's forward pass up to its hidden values.
func (t *Trainer) layer(l int, a *layerActs) {
	t.queryKeyValue(l, a)
	if t.tree.shared() {
		t.attendTree(a)
	} else {
		t.dev.Attend(t.attention(a))
	}
	t.outputAndGates(l, a)
}

func (t *Trainer) attention(a *layerActs) Attention {
	return Attention{
		Heads: t.Heads, Scale: t.attentionScale(), Out: a.att, LSE: a.lse, Q: a.qr, K: a.kr, V: a.v,
		Starts: t.starts.Slice(0, t.positions.Len),
	}
}

// head scores M targets, LogitRows at a time.
func (t *Trainer) head(m int) {
	f := t.targetActs(0, m)
	t.finalNorm(&f, t.last, t.rows.Slice(0, m))
	for from := 0; from < m; from += t.LogitRows {
		loss := t.logits(from, min(m, from+t.LogitRows))
		t.dev.LogProbs(loss)
	}
}

// targetActs is what follows the layers, for the targets from..to-1.
func (t *Trainer) targetActs(from, to int) headActs {
	return headActs{
		t.final.x.Slice(from*t.Width, to*t.Width), t.final.rstd.Slice(from, to), t.final.n.Slice(from*t.Width, to*t.Width),
	}
}

// logits computes the logits of the targets from..to-1.
func (t *Trainer) logits(from, to int) TokenLoss {
	loss := t.chunk(from, to)
	t.dev.MatMul(loss.Logits, t.targetActs(from, to).n, t.Model.head)
	return loss
}

func (t *Trainer) chunk(from, to int) TokenLoss {
	return TokenLoss{
		Logits: t.loss.Logits.Slice(0, (to-from)*t.Vocab), Scale: t.loss.Scale.Slice(from, to), LSE: t.loss.LSE.Slice(from, to),
		Targets: t.targets.Slice(from, to), LogProb: t.loss.LogProb.Slice(from, to), Entropy: t.loss.Entropy.Slice(from, to),
	}
}
