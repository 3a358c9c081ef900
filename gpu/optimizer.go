package gpu

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"understudy/gpu/safetensors"
)

// ErrNotFinite is returned, wrapped, when gradients hold NaN or Inf: nothing
// was updated.
var ErrNotFinite = errors.New("gradients are not finite")

// AdamWConfig sets the optimiser. DefaultAdamW has the usual values.
type AdamWConfig struct {
	LR    float64 // at its peak
	MinLR float64 // where the cosine ends
	// Warmup updates rise linearly to LR; until update Total it then falls as a
	// cosine to MinLR. Total 0 keeps LR.
	Warmup, Total int
	Beta1, Beta2  float64
	Eps           float64
	Decay         float64 // decoupled, of matrices only
	Clip          float64 // greatest global norm of the gradients; 0 does not clip
	// Moments is the type they are kept in: F32, or BF16 on a device with HalfMoments, which
	// takes half the memory.
	Moments DType
}

// DefaultAdamW is a constant learning rate with the usual betas.
func DefaultAdamW(lr float64) AdamWConfig {
	return AdamWConfig{LR: lr, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Clip: 1}
}

// Validate lists all faults.
func (c AdamWConfig) Validate() error {
	var errs []error
	for _, x := range []struct {
		ok   bool
		text string
	}{
		{c.LR >= 0 && !math.IsInf(c.LR, 0), "lr must be finite and not negative"},
		{c.MinLR >= 0 && c.MinLR <= c.LR, "min lr must lie between 0 and lr"},
		{c.Warmup >= 0 && (c.Total == 0 || c.Total >= c.Warmup), "warmup must not be negative, nor longer than total"},
		{c.Beta1 >= 0 && c.Beta1 < 1 && c.Beta2 >= 0 && c.Beta2 < 1, "betas must lie in [0,1)"},
		{c.Eps > 0, "eps must be positive"},
		{c.Decay >= 0 && c.Clip >= 0, "decay and clip must not be negative"},
		{c.Moments == F32 || c.Moments == BF16, "moments are kept in float32 or bfloat16"},
	} {
		if !x.ok {
			errs = append(errs, errors.New(x.text))
		}
	}
	return errors.Join(errs...)
}

// Rate is the learning rate of the update after n others.
func (c AdamWConfig) Rate(n int) float64 {
	switch {
	case n < c.Warmup:
		return c.LR * float64(n+1) / float64(c.Warmup)
	case c.Total == 0:
		return c.LR
	case n >= c.Total:
		return c.MinLR
	}
	done := float64(n-c.Warmup) / float64(c.Total-c.Warmup)
	return c.MinLR + (c.LR-c.MinLR)*(1+math.Cos(math.Pi*done))/2
}

// AdamW optimises what a trainer trains.
type AdamW struct {
	AdamWConfig
	trainer *Trainer
	moments [][2]*Params // first and second, of each of trainer.trained
	updates int
}

// Update is what one update was.
type Update struct {
	Number int     // from 1
	Rate   float64 // learning rate
	Norm   float64 // global norm of the gradients, before clipping
}

// NewAdamW allocates the moments.
func (t *Trainer) NewAdamW(c AdamWConfig) (*AdamW, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("new optimiser: %w", err)
	}
	if t.ScoreOnly {
		return nil, errors.New("new optimiser: this trainer only scores")
	}
	if _, ok := t.dev.(HalfMoments); c.Moments == BF16 && !ok {
		return nil, fmt.Errorf("new optimiser: %s keeps moments in float32 only", t.dev.Name())
	}
	o := &AdamW{AdamWConfig: c, trainer: t}
	for _, x := range t.trained {
		var pair [2]*Params
		for i := range pair {
			moment, err := x.params.like(t.dev, c.Moments)
			if err != nil {
				if i == 1 {
					t.dev.Free(pair[0].Values)
				}
				o.Free()
				return nil, fmt.Errorf("optimiser: %w", err)
			}
			pair[i] = moment
		}
		o.moments = append(o.moments, pair)
	}
	return o, nil
}

// Free gives the moments' memory back.
func (o *AdamW) Free() {
	for _, pair := range o.moments {
		o.trainer.dev.Free(pair[0].Values)
		o.trainer.dev.Free(pair[1].Values)
	}
}

// Updates is how many there were.
func (o *AdamW) Updates() int { return o.updates }

// Update moves the parameters by the summed gradients and clears these. With
// gradients that are not finite it changes nothing but clearing them, and
// returns ErrNotFinite.
func (o *AdamW) Update() (Update, error) {
	t := o.trainer
	defer t.ClearGradients()
	norm, err := o.gradNorm()
	u := Update{Number: o.updates + 1, Rate: o.Rate(o.updates), Norm: norm}
	if err != nil {
		return u, fmt.Errorf("update %d: %w", u.Number, err)
	}
	scale := 1.0
	if o.Clip > 0 && norm > o.Clip {
		scale = o.Clip / norm
	}
	o.updates++
	for i, x := range t.trained {
		n, d := x.params.Values.Len, x.params.Decayed
		o.move(i, 0, d, o.Decay, u.Rate, scale)
		o.move(i, d, n, 0, u.Rate, scale)
		x.changed()
	}
	if err := t.dev.Sync(); err != nil {
		return u, fmt.Errorf("update %d: %w", u.Number, err)
	}
	return u, nil
}

// move updates the elements from..to-1 of the i-th parameters.
func (o *AdamW) move(i, from, to int, decay, rate, scale float64) {
	if from == to {
		return
	}
	x, moments := o.trainer.trained[i], o.moments[i]
	o.trainer.dev.AdamW(AdamWUpdate{
		P: x.params.Values.Slice(from, to), G: x.grads.Values.Slice(from, to),
		M: moments[0].Values.Slice(from, to), V: moments[1].Values.Slice(from, to),
		LR: float32(rate), Beta1: float32(o.Beta1), Beta2: float32(o.Beta2), Eps: float32(o.Eps), Decay: float32(decay),
		Bias1: float32(1 - math.Pow(o.Beta1, float64(o.updates))), Bias2: float32(1 - math.Pow(o.Beta2, float64(o.updates))),
		GradScale: float32(scale),
		Seed:      uint64(o.updates)<<32 | uint64(2*i+min(from, 1)), //nolint:gosec // counts
	})
}

// gradNorm is the global norm of all gradients.
func (o *AdamW) gradNorm() (float64, error) {
	total := 0.0
	for _, x := range o.trainer.trained {
		sum, err := o.trainer.dev.SquareSum(x.grads.Values)
		if err != nil {
			return 0, err
		}
		total += sum
	}
	if !math.IsNaN(total) && !math.IsInf(total, 0) {
		return math.Sqrt(total), nil
	}
	for _, x := range o.trainer.trained {
		for _, g := range x.grads.Tensors {
			if sum, err := o.trainer.dev.SquareSum(g.Buffer); err == nil && (math.IsNaN(sum) || math.IsInf(sum, 0)) {
				return total, fmt.Errorf("%w: that of %s", ErrNotFinite, x.prefix+g.Name)
			}
		}
	}
	return total, ErrNotFinite
}

// Save writes the moments and the number of updates to a safetensors file, at
// once or not at all. With the model saved as float32 beside it, training goes
// on bit for bit.
func (o *AdamW) Save(path string) error {
	var list []safetensors.Tensor
	for i, x := range o.trainer.trained {
		for j, moment := range []string{"m.", "v."} {
			part, err := download(o.trainer.dev, o.moments[i][j], moment+x.prefix, safetensors.F32)
			if err != nil {
				return fmt.Errorf("save optimiser: %w", err)
			}
			list = append(list, part...)
		}
	}
	if err := safetensors.Write(path, list, map[string]string{"updates": strconv.Itoa(o.updates)}); err != nil {
		return fmt.Errorf("save optimiser: %w", err)
	}
	return nil
}

// Restore reads what Save wrote, for the same parameters.
func (o *AdamW) Restore(path string) (err error) {
	file, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("restore optimiser: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	updates, err := strconv.Atoi(file.Metadata()["updates"])
	if err != nil || updates < 0 {
		return fmt.Errorf("restore optimiser: %s holds no number of updates: it was written by another program", path)
	}
	for i, x := range o.trainer.trained {
		for j, moment := range []string{"m.", "v."} {
			if err := upload(o.trainer.dev, o.moments[i][j], file, moment+x.prefix); err != nil {
				return fmt.Errorf("restore optimiser: %w", err)
			}
		}
	}
	o.updates = updates
	return o.trainer.dev.Sync()
}
