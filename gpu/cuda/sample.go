package cuda

import (
	"math"
	"unsafe"

	"understudy/gpu"
)

var _ gpu.Sampler = (*Device)(nil)

// draw and drawn are Draw and Drawn of kernels/sample.cu: no padding, the same bytes on both sides.
type draw struct {
	random, topP uint64
	topK         int32
	minP         float32
	tempered, _  uint32
}

type drawn struct {
	ones, kept               int64
	id, finite               int32
	logit, lse, most, weight float32
}

// Sample draws a token of each row, a block a row: sample_tokens(out, draws, logits, scale, lse, v).
func (d *Device) Sample(t gpu.TokenLoss, draws []gpu.Draw, out []gpu.Drawn) error {
	rows := t.LSE.Len
	if rows == 0 {
		return nil
	}
	const size = int(unsafe.Sizeof(draw{}) + unsafe.Sizeof(drawn{}))
	scratch, err := d.growingScratch(scratchDraws, ceil(rows*size, 4), math.MaxInt)
	if err != nil {
		return err
	}
	from := scratch.Slice(0, rows*int(unsafe.Sizeof(draw{}))/4)
	to := scratch.Slice(from.Len, scratch.Len)
	d.draws = d.draws[:0]
	for _, x := range draws {
		d.draws = append(d.draws, draw{x.Random, x.TopP, int32(x.TopK), x.MinP, uint32(flag(x.Tempered)), 0})
	}
	d.upload(from, rawBytes(d.draws))
	v := t.Logits.Len / rows
	d.launch("sample_tokens", line(rows), vocabularyBlock(v), ptr(to), ptr(from), ptr(t.Logits), ptr(t.Scale), ptr(t.LSE), i32(v))
	if cap(d.drawn) < rows {
		d.drawn = make([]drawn, rows)
	}
	d.drawn = d.drawn[:rows]
	if err := d.download(rawBytes(d.drawn), address(to)); err != nil {
		return err
	}
	for i, x := range d.drawn {
		out[i] = gpu.Drawn{
			ID: x.id, Finite: x.finite != 0, Logit: x.logit, LSE: x.lse,
			Most: x.most, Ones: x.ones, Weight: x.weight, Kept: x.kept,
		}
	}
	return nil
}
