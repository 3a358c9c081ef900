package gpu

// treeActs is attention over sequences that share beginnings (Batch.Parents).
// Projections, norms and the MLP, which are nearly all of the work, run over
// each row once; for attention alone the rows are expanded to whole sequences,
// so that it is the same operation with the same bits. A row asks once, where it
// first stands; elsewhere it is key and value only.
type treeActs struct {
	n            int    // E of this batch; 0: nothing is shared
	q, k, v      Buffer // (E,H,D), (E,G,D), (E,G,D)
	out, lse     Buffer // (E,H,D), (E,H)
	dout         Buffer // (E,H,D)
	dq, dk, dv   Buffer // as q, k, v
	rows, starts Buffer // (E) I32, see layout
	asked        Buffer // (E) I32: 1 where a row first stands
	first        Buffer // (T) I32
}

func (x *treeActs) shared() bool { return x.n > 0 }

// buffers gives each buffer, its elements per expanded row and their type; act is that of activations.
func (x *treeActs) buffers(h Heads, act DType, scoreOnly bool) []rowBuffer {
	q, k := h.H*h.D, h.G*h.D
	list := []rowBuffer{{&x.q, q, act}, {&x.k, k, act}, {&x.v, k, act}, {&x.out, q, act}, {&x.lse, h.H, F32}}
	if !scoreOnly {
		list = append(list, rowBuffer{&x.dout, q, act}, rowBuffer{&x.dq, q, act}, rowBuffer{&x.dk, k, act}, rowBuffer{&x.dv, k, act})
	}
	return list
}

// planTree lays out one layer's expanded attention; no layer's is kept.
func (t *Trainer) planTree(p *plan) {
	if t.Expanded == 0 {
		return
	}
	p.add(t.Expanded, t.tree.buffers(t.Heads, t.Activations, t.ScoreOnly)...)
	p.addInts(t.Expanded, &t.tree.rows, &t.tree.starts, &t.tree.asked)
	p.addInts(t.Tokens, &t.tree.first)
}

// expanded is the tree's buffers for the rows of this batch.
func (t *Trainer) expanded() treeActs {
	x := t.tree
	for _, b := range x.buffers(t.Heads, t.Activations, t.ScoreOnly) {
		*b.buffer = b.buffer.Slice(0, x.n*b.perRow)
	}
	for _, b := range []*Buffer{&x.rows, &x.starts, &x.asked} {
		*b = b.Slice(0, x.n)
	}
	x.first = x.first.Slice(0, t.positions.Len)
	return x
}

func (t *Trainer) treeAttention(x *treeActs) Attention {
	return Attention{
		Heads: t.Heads, Scale: t.attentionScale(), Out: x.out, LSE: x.lse, Q: x.q, K: x.k, V: x.v, Starts: x.starts, Asked: x.asked,
	}
}

// attendTree expands a layer's rows, attends, and takes each row's result from
// where it first stands.
func (t *Trainer) attendTree(a *layerActs) {
	x := t.expand(a)
	t.dev.Attend(t.treeAttention(&x))
	t.dev.Gather(a.att, x.out, x.first)
	t.dev.Gather(a.lse, x.lse, x.first)
}

// expand puts a layer's keys and values wherever they stand, and its queries where
// they ask.
func (t *Trainer) expand(a *layerActs) treeActs {
	x := t.expanded()
	t.dev.Scatter(x.q, a.qr, x.first)
	t.dev.Gather(x.k, a.kr, x.rows)
	t.dev.Gather(x.v, a.v, x.rows)
	return x
}

// attendTreeBackward is the gradient of attendTree. Only where a row first
// stands does its result go on; its key and value are read by all that continue
// it, whose gradients add up.
func (t *Trainer) attendTreeBackward(a *layerActs, g *gradActs) {
	x := t.expand(a)
	t.dev.Scatter(x.out, a.att, x.first)
	t.dev.Scatter(x.lse, a.lse, x.first)
	t.dev.Scatter(x.dout, g.att, x.first)
	t.dev.AttendBackward(AttentionGrad{Attention: t.treeAttention(&x), DOut: x.dout, DQ: x.dq, DK: x.dk, DV: x.dv})
	t.dev.Gather(g.qr, x.dq, x.first)
	t.dev.Zero(g.kr)
	t.dev.EmbedBackward(g.kr, x.dk, x.rows)
	t.dev.Zero(g.v)
	t.dev.EmbedBackward(g.v, x.dv, x.rows)
}
