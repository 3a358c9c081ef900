package gpu

import (
	"errors"
	"fmt"
)

// gradActs is the gradients that flow through one layer, and their scratch.
type gradActs struct {
	res           Buffer // (T,C) of the residual
	n             Buffer // (T,C) of a norm's output
	q, k, v       Buffer // (T,H,D), (T,G,D), (T,G,D) of the projections' outputs
	qr, kr        Buffer // of the rotated; q and k themselves without norms
	att           Buffer // (T,H,D)
	gate, up, h   Buffer // (T,F)
	final, finalN Buffer // (M,C) before and after the final norm
	logp, ent     Buffer // (M)
	low           Buffer // (T,rank)
}

// sizes gives each buffer of a layer's gradients, its elements per row and their type. Those of activations
// are of their type; what several products add to, and the residual's, stay F32.
func (g *gradActs) sizes(c Config, act DType) []rowBuffer {
	list := []rowBuffer{
		{&g.res, c.Width, F32},
		{&g.n, c.Width, F32},
		{&g.att, c.H * c.D, act},
		{&g.q, c.H * c.D, act},
		{&g.k, c.G * c.D, act},
		{&g.v, c.G * c.D, act},
		{&g.gate, c.Hidden, act},
		{&g.up, c.Hidden, act},
		{&g.h, c.Hidden, act},
	}
	if c.QKNorm() {
		list = append(list, rowBuffer{&g.qr, c.H * c.D, act}, rowBuffer{&g.kr, c.G * c.D, act})
	}
	return list
}

// planGrads lays out what Backward needs.
func (t *Trainer) planGrads(p *plan) {
	m, g := t.Model, &t.tmp
	p.add(t.Tokens, g.sizes(m.Config, t.Activations)...)
	p.add(t.Targets, rowBuffer{&g.final, m.Width, F32}, rowBuffer{&g.finalN, m.Width, F32}, rowBuffer{&g.logp, 1, F32}, rowBuffer{&g.ent, 1, F32})
}

// Backward adds to the gradients, given the derivatives of the loss by each
// target's log-probability and, unless nil, by its entropy (M). It is for the
// batch of the last Forward, once.
func (t *Trainer) Backward(dlogprob, dentropy []float32) error {
	b := t.batch
	t.batch = nil
	switch {
	case t.ScoreOnly:
		return errors.New("backward: this trainer only scores")
	case b == nil:
		return errors.New("backward: it follows one successful forward")
	case len(dlogprob) != len(b.Rows) || dentropy != nil && len(dentropy) != len(b.Rows):
		return fmt.Errorf("backward: %d and %d derivatives for %d targets", len(dlogprob), len(dentropy), len(b.Rows))
	}
	rows := len(b.Tokens)
	t.headBackward(len(b.Rows), rows, dlogprob, dentropy)
	for l := t.Layers - 1; l >= 0; l-- {
		a := t.acts[l].rows(t.Config, rows)
		if t.Checkpoint && l < t.Layers-1 {
			t.layer(l, &a) // the last layer's are still there
		}
		g := t.tmp.rows(t.Config, rows)
		t.mlpBackward(l, &a, &g)
		t.attentionBackward(l, &a, &g)
	}
	if !t.grads.embed.None() {
		t.dev.EmbedBackward(t.grads.embed, t.tmp.res.Slice(0, rows*t.Width), t.tokens.Slice(0, rows))
	}
	if err := t.dev.Sync(); err != nil {
		return fmt.Errorf("backward: %w", err)
	}
	return nil
}

// rows is g for the first r rows only.
func (g gradActs) rows(c Config, r int) gradActs {
	for _, b := range g.sizes(c, g.q.Type) {
		*b.buffer = b.buffer.Slice(0, r*b.perRow)
	}
	if !c.QKNorm() {
		g.qr, g.kr = g.q, g.k
	}
	return g
}

// headBackward goes from the losses of M targets to the gradient of the
// residual that leaves the last layer.
func (t *Trainer) headBackward(m, rows int, dlogprob, dentropy []float32) {
	t.dev.Upload(t.tmp.logp, dlogprob)
	ent := Buffer{}
	if dentropy != nil {
		ent = t.tmp.ent
		t.dev.Upload(ent, dentropy)
	}
	dn := t.tmp.finalN.Slice(0, m*t.Width)
	for from := 0; from < m; from += t.LogitRows {
		to := min(m, from+t.LogitRows)
		loss := t.chunk(from, to)
		if m > t.LogitRows {
			loss = t.logits(from, to)
		}
		if dentropy != nil {
			ent = t.tmp.ent.Slice(from, to)
		}
		t.dev.LogProbsBackward(loss, t.tmp.logp.Slice(from, to), ent)
		if !t.grads.head.None() {
			t.dev.MatMulBackW(t.grads.head, loss.Logits, t.targetActs(from, to).n, to-from)
		}
		t.dev.MatMulBackX(dn.Slice(from*t.Width, to*t.Width), loss.Logits, t.Model.head, false)
	}
	f, dx, res := t.targetActs(0, m), t.tmp.final.Slice(0, m*t.Width), t.tmp.res.Slice(0, rows*t.Width)
	t.dev.Zero(dx)
	t.dev.RMSNormBackward(dx, t.grads.norm, dn, f.x, t.w.norm, f.rstd)
	t.dev.Zero(res)
	t.dev.EmbedBackward(res, dx, t.rows.Slice(0, m)) // a row may be read more than once
}

// mlpBackward turns g.res from the gradient of what leaves the layer into that
// of the residual between attention and MLP.
func (t *Trainer) mlpBackward(l int, a *layerActs, g *gradActs) {
	w, dw := t.w.layers[l], t.grads.layers[l]
	t.projectBackward(g.h, g.res, a.h, l, projDown, false)
	t.dev.SwiGLUBackward(g.gate, g.up, g.h, a.gate, a.up)
	t.projectBackward(g.n, g.gate, a.n2, l, projGate, false)
	t.projectBackward(g.n, g.up, a.n2, l, projUp, true)
	t.dev.RMSNormBackward(g.res, dw.norm2, g.n, a.mid, w.norm2, a.rstd2)
}

// attentionBackward turns g.res further into the gradient of what entered.
func (t *Trainer) attentionBackward(l int, a *layerActs, g *gradActs) {
	w, dw := t.w.layers[l], t.grads.layers[l]
	t.projectBackward(g.att, g.res, a.att, l, projO, false)
	if t.tree.shared() {
		t.attendTreeBackward(a, g)
	} else {
		t.dev.AttendBackward(AttentionGrad{Attention: t.attention(a), DOut: g.att, DQ: g.qr, DK: g.kr, DV: g.v})
	}
	t.dev.RoPE(g.qr, t.rope, t.positions, t.D, true)
	t.dev.RoPE(g.kr, t.rope, t.positions, t.D, true)
	if t.QKNorm() {
		t.dev.Zero(g.q)
		t.dev.RMSNormBackward(g.q, dw.qnorm, g.qr, a.q, w.qnorm, a.rstdQ)
		t.dev.Zero(g.k)
		t.dev.RMSNormBackward(g.k, dw.knorm, g.kr, a.k, w.knorm, a.rstdK)
	}
	t.projectBackward(g.n, g.q, a.n1, l, projQ, false)
	t.projectBackward(g.n, g.k, a.n1, l, projK, true)
	t.projectBackward(g.n, g.v, a.n1, l, projV, true)
	t.dev.RMSNormBackward(g.res, dw.norm1, g.n, a.x, w.norm1, a.rstd1)
}

// projectBackward: dx (T,K) = dy (T,N)·w, or += ; and the gradients of w and of
// the adapters on it.
func (t *Trainer) projectBackward(dx, dy, x Buffer, l, p int, add bool) {
	w := t.proj[l][p]
	if dw := t.grads.layers[l].proj[p]; !dw.None() {
		t.dev.MatMulBackW(dw, dy, x, t.positions.Len)
	}
	t.dev.MatMulBackX(dx, dy, w, add)
	for _, s := range t.spans {
		if s.adapter.layers[l][p] != nil {
			t.loraBackward(s, l, p, dx.Slice(s.from*w.K, s.to*w.K), dy.Slice(s.from*w.N, s.to*w.N), x.Slice(s.from*w.K, s.to*w.K))
		}
	}
}

// loraBackward: with low = s·x·Aᵀ and dlow = s·dy·B,
//
//	dB += dyᵀ·low;  dA += dlowᵀ·x;  dx += dlow·A
func (t *Trainer) loraBackward(s adapterRows, l, p int, dx, dy, x Buffer) {
	lora, rows := s.adapter.layers[l][p], s.to-s.from
	low, scaled := t.low.Slice(0, rows*lora.a.N), t.tmp.low.Slice(0, rows*lora.a.N)
	grads := t.adapterGrads[s.adapter]
	if grads != nil {
		t.dev.MatMul(low, x, lora.a)
		t.dev.Zero(scaled)
		t.dev.AddScaled(scaled, s.adapter.scale(), low)
		t.dev.MatMulBackW(grads.Tensors[lora.paramA+1].Buffer, dy, scaled, rows)
	}
	t.dev.MatMulBackX(low, dy, lora.b, false)
	t.dev.Zero(scaled)
	t.dev.AddScaled(scaled, s.adapter.scale(), low)
	if grads != nil {
		t.dev.MatMulBackW(grads.Tensors[lora.paramA].Buffer, scaled, x, rows)
	}
	t.dev.MatMulBackX(dx, scaled, lora.a, true)
}
