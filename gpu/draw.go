package gpu

// Draw says how the token of a row of logits is drawn. The zero value takes the most likely one.
// Package sample draws so; a [Sampler] gives the same, bit for bit.
type Draw struct {
	Random uint64 // as likely any as another
	// Tempered draws by the logits, scaled; else, and where TopK is 1, the most likely token is taken,
	// of several the one with the lowest id.
	Tempered bool
	// What is drawn from: the TopK most likely tokens, of those the most likely whose share is at
	// least TopP 2⁻⁶⁴, and none below MinP times the most likely. 0 = all, each.
	TopK int
	TopP uint64
	MinP float32
}

// Whole says that the token is drawn from all tokens.
func (d Draw) Whole() bool { return d.Tempered && d.TopK == 0 && d.TopP == 0 && !(d.MinP > 0) }

// Greedy says that there is nothing to draw.
func (d Draw) Greedy() bool { return !d.Tempered || d.TopK == 1 }

// Drawn is the token of a row, and what its log-probabilities are made of (sample.LogProbs). A weight
// is e^x of a logit's distance from another number; sums are of weights as whole numbers
// (sample.Unit), so that their order does not matter.
type Drawn struct {
	ID     int32
	Finite bool    // no logit is NaN or infinite, nor is LSE; else there is nothing but LSE
	Logit  float32 // of the token
	LSE    float32 // log Σ exp(scale·logit)
	// Most is the greatest logit, Ones the sum of weights exp(logit−Most); both 0 when the scale is 1.
	Most float32
	Ones int64
	// Weight of the token beside the most likely one, and the sum of all that it was drawn from; both
	// 0 where it was drawn from all tokens, or taken.
	Weight float32
	Kept   int64
}

// Sampler is a Device that draws tokens where their logits are: few bytes of a row come back, in place of a
// whole vocabulary.
type Sampler interface {
	Device
	// Sample draws for each row of t, whose LSE is written (LogProbs), and waits. There are as many
	// draws and places for results as rows.
	Sample(t TokenLoss, draws []Draw, out []Drawn) error
}
