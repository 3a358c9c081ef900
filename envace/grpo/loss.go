package grpo

import (
	"fmt"
	"math"
)

// Ratio says over what the probability ratio is taken.
type Ratio string

// The ratios.
const (
	TokenRatio    Ratio = "token"    // the paper's, one ratio a token
	SequenceRatio Ratio = "sequence" // GSPO: the geometric mean over the output's tokens
)

// Estimator names an estimate of KL(policy ‖ reference) from one sampled token;
// d = log-probability under the policy − under the reference.
type Estimator string

// The estimators.
const (
	K1 Estimator = "k1" // d
	K2 Estimator = "k2" // d²/2
	K3 Estimator = "k3" // exp(−d) + d − 1
)

// Loss is the objective of one update. The zero value of every option is off.
type Loss struct {
	ClipLow, ClipHigh float64 // the ratio counts within [1−ClipLow, 1+ClipHigh]; equal in the paper
	DualClip          float64 // c > 1 bounds the loss of negative advantages by c·|A|
	Ratio             Ratio   // empty = TokenRatio
	KL                float64 // coefficient of the KL term
	Estimator         Estimator
	Entropy           float64 // coefficient of the entropy bonus
	// Truncate caps the importance weight exp(old − sampled) that corrects tokens
	// which another engine sampled.
	Truncate float64
}

// Row is one output's sampled tokens, in order. All slices have the same length.
type Row struct {
	Advantage float64
	LogProb   []float64 // under the policy that is updated
	Old       []float64 // under the policy before this batch's first update
	Reference []float64 // under the frozen reference; needed for KL
	Sampled   []float64 // as the generator reported them; needed for Truncate
	Entropy   []float64 // of the policy at each token; needed for Entropy
}

// Part is what one row adds to the batch's loss. Sums are over tokens, so that
// parts of any split of a batch add up to the same whole.
type Part struct {
	Loss     float64 // already scaled
	Tokens   int
	Clipped  int     // tokens whose policy term has no gradient left
	Ratio    float64 // sum of the ratios
	MaxRatio float64 // largest |ratio − 1|
	KL       float64 // sum of the estimates
	Entropy  float64 // sum
	Weight   float64 // sum of the importance weights
}

// Add joins the parts of two rows.
func (p Part) Add(q Part) Part {
	return Part{
		Loss: p.Loss + q.Loss, Tokens: p.Tokens + q.Tokens, Clipped: p.Clipped + q.Clipped,
		Ratio: p.Ratio + q.Ratio, MaxRatio: max(p.MaxRatio, q.MaxRatio),
		KL: p.KL + q.KL, Entropy: p.Entropy + q.Entropy, Weight: p.Weight + q.Weight,
	}
}

// Row adds one output. Scale is 1 / (sampled tokens of the whole batch): the
// token mean is then the same for every micro-batch and worker. It writes
// ∂loss/∂LogProb into grad; ∂loss/∂Entropy is −l.Entropy·scale for each token.
// A length that does not fit or a number that is not finite is an error, and
// grad must then not be used.
func (l Loss) Row(r Row, scale float64, grad []float64) (Part, error) {
	if err := l.check(r, grad); err != nil {
		return Part{}, err
	}
	ratios, weights := l.ratios(r), l.weights(r)
	part := Part{Tokens: len(r.LogProb)}
	for t := range r.LogProb {
		weight := weights[t]
		loss, slope := l.surrogate(ratios[t], r.Advantage)
		if slope == 0 && r.Advantage != 0 {
			part.Clipped++
		}
		// dρ/dlogprob = ρ; of a sequence ratio, each of n tokens moves all n
		// ratios by ρ/n: ρ again in the sum, as their weights are equal.
		grad[t] = scale * weight * slope * ratios[t]
		part.Loss += scale * weight * loss
		part.Ratio += ratios[t]
		part.MaxRatio = max(part.MaxRatio, math.Abs(ratios[t]-1))
		part.Weight += weight
		if l.KL != 0 {
			kl, slope := l.Estimator.value(r.LogProb[t] - r.Reference[t])
			part.KL += kl
			part.Loss += scale * l.KL * kl
			grad[t] += scale * l.KL * slope
		}
		if l.Entropy != 0 {
			part.Entropy += r.Entropy[t]
			part.Loss -= scale * l.Entropy * r.Entropy[t]
		}
		if math.IsNaN(grad[t]) || math.IsInf(grad[t], 0) || math.IsNaN(part.Loss) || math.IsInf(part.Loss, 0) {
			return Part{}, fmt.Errorf("token %d of %d: loss %v, gradient %v (log-probability %v, before the batch %v, advantage %v)",
				t, len(grad), part.Loss, grad[t], r.LogProb[t], r.Old[t], r.Advantage)
		}
	}
	return part, nil
}

// surrogate is −min(ρA, clip(ρ)A), bounded below by the dual clip, and its
// derivative by ρ.
func (l Loss) surrogate(ratio, advantage float64) (loss, slope float64) {
	loss, slope = -ratio*advantage, -advantage
	if clipped := -min(max(ratio, 1-l.ClipLow), 1+l.ClipHigh) * advantage; clipped > loss {
		loss, slope = clipped, 0
	}
	if bound := -l.DualClip * advantage; l.DualClip > 0 && advantage < 0 && loss > bound {
		loss, slope = bound, 0
	}
	return loss, slope
}

func (l Loss) ratios(r Row) []float64 {
	ratios := make([]float64, len(r.LogProb))
	sum := 0.0
	for t := range ratios {
		d := r.LogProb[t] - r.Old[t]
		ratios[t], sum = math.Exp(d), sum+d
	}
	if l.Ratio == SequenceRatio {
		fill(ratios, math.Exp(sum/float64(len(ratios))))
	}
	return ratios
}

// weights are the importance weights; those of a sequence ratio are their mean.
func (l Loss) weights(r Row) []float64 {
	weights := make([]float64, len(r.LogProb))
	fill(weights, 1)
	if l.Truncate == 0 {
		return weights
	}
	sum := 0.0
	for t := range weights {
		weights[t] = min(math.Exp(r.Old[t]-r.Sampled[t]), l.Truncate)
		sum += weights[t]
	}
	if l.Ratio == SequenceRatio {
		fill(weights, sum/float64(len(weights)))
	}
	return weights
}

func fill(values []float64, x float64) {
	for i := range values {
		values[i] = x
	}
}

func (e Estimator) value(d float64) (kl, slope float64) {
	switch e {
	case K1:
		return d, 1
	case K2:
		return d * d / 2, d
	case K3:
		return math.Exp(-d) + d - 1, 1 - math.Exp(-d)
	}
	return math.NaN(), math.NaN()
}

func (l Loss) check(r Row, grad []float64) error {
	n := len(r.LogProb)
	lengths := []struct {
		name   string
		needed bool
		got    int
	}{
		{"old log-probabilities", true, len(r.Old)},
		{"gradients", true, len(grad)},
		{"reference log-probabilities", l.KL != 0, len(r.Reference)},
		{"sampled log-probabilities", l.Truncate != 0, len(r.Sampled)},
		{"entropies", l.Entropy != 0, len(r.Entropy)},
	}
	for _, x := range lengths {
		if x.needed && x.got != n {
			return fmt.Errorf("%d %s for %d tokens", x.got, x.name, n)
		}
	}
	return l.Validate()
}

// Validate names the first option that makes no sense.
func (l Loss) Validate() error {
	switch {
	case l.ClipLow < 0 || l.ClipLow >= 1 || l.ClipHigh < 0:
		return fmt.Errorf("clip [1-%v, 1+%v]: want 0 ≤ low < 1 and high ≥ 0", l.ClipLow, l.ClipHigh)
	case l.DualClip != 0 && l.DualClip <= 1:
		return fmt.Errorf("dual clip %v: want more than 1, or 0 for none", l.DualClip)
	case l.Ratio != "" && l.Ratio != TokenRatio && l.Ratio != SequenceRatio:
		return fmt.Errorf("unknown ratio %q: token or sequence", l.Ratio)
	case l.KL != 0 && l.Estimator != K1 && l.Estimator != K2 && l.Estimator != K3:
		return fmt.Errorf("unknown KL estimator %q: k1, k2 or k3", l.Estimator)
	case l.Truncate < 0:
		return fmt.Errorf("importance weight cap %v: want 0 for none, or more", l.Truncate)
	}
	return nil
}
