package cuda

import (
	"fmt"
	"math"
	"strings"

	"understudy/gpu"
)

// Job is what a card is to hold at once.
type Job struct {
	Model    gpu.Config
	Products gpu.DType // Options.Products
	Mode     gpu.Mode
	// Trained says that the model's weights are trained: they lie in memory as F32, with their
	// gradients and moments. Else they lie as Stored, the type of their file.
	Trained bool
	Stored  gpu.DType
	// Adapters are trained beside or instead of the weights.
	Adapters []gpu.AdapterConfig
	Training *gpu.TrainerConfig // nil: nothing is trained
	Moments  gpu.DType          // of the optimiser: F32 or BF16 (gpu.AdamWConfig)
	Rollouts *gpu.RunnerConfig  // nil: nothing is written
}

// Part is one kind of memory of a plan.
type Part struct {
	What  string
	Bytes int64
}

// Plan is the memory that a job takes on a card, before anything is allocated: so that a run
// which cannot fit is refused before its first step.
type Plan []Part

// Plan works the memory out: what Alloc gives, and attention's scratch. What the driver keeps
// for itself (some hundred MiB), graphs and gaps in the arena come on top.
func (j Job) Plan() (Plan, error) {
	n, matrices := j.Model.Parameters(), j.Model.Matrices()
	var adapters int64
	for _, a := range j.Adapters {
		more, err := j.Model.AdapterParameters(a)
		if err != nil {
			return nil, err
		}
		adapters += more
	}
	var p Plan
	add := func(what string, bytes int64) {
		if bytes > 0 {
			p = append(p, Part{what, bytes})
		}
	}
	trained := adapters
	if j.Trained {
		trained += n
		add("weights, float32", 4*n)
	} else {
		add("weights, as in their files", int64(j.Stored.Size())*n)
	}
	add("adapters, float32", 4*adapters)
	rounded := adapters
	if j.Trained || j.Stored != gpu.BF16 {
		rounded += matrices
	}
	if j.Products == gpu.BF16 {
		add("matrices again, rounded for products", 2*rounded)
	}
	if j.Training != nil && !j.Training.ScoreOnly {
		add("gradients", 4*trained)
		add("moments of AdamW", 2*int64(j.Moments.Size())*trained)
	}
	options := Options{Products: j.Products}
	if j.Training != nil {
		training := *j.Training
		training.Activations = options.ActivationType()
		add("activations of a micro-batch", j.Model.TrainingBytes(training, j.Adapters...))
	}
	if j.Rollouts != nil {
		rollouts := *j.Rollouts
		rollouts.KV, rollouts.Activations = options.KVType(), options.ActivationType()
		add("keys, values and activations of rollouts", j.Model.RolloutBytes(rollouts, j.Adapters...))
	}
	add("scratch of products", j.scratch())
	add("room to check cuBLASLt's products", j.checkRoom())
	add("scratch of attention", j.attentionScratch())
	return p, nil
}

// attentionScratch is what attention needs: a sum of each query in training, sums of each split of a row's keys
// in rollouts.
func (j Job) attentionScratch() int64 {
	h, d, bytes := int64(j.Model.H), int64(j.Model.D), int64(0)
	if j.Training != nil && !j.Training.ScoreOnly {
		bytes = 4 * h * int64(max(j.Training.WithDefaults(j.Model).Tokens, j.Training.Expanded))
	}
	if j.Rollouts != nil {
		rows, splits := int64(j.Rollouts.Rows), int64(ceil(j.Rollouts.Context, splitKeys))
		sums := min(rows*h*splits, mostSplitSums/d) * (d + 2)
		bytes += 4 * int64(grown(int(sums), splitSums(int(d)))+grown(int(3*rows*splits), math.MaxInt))
	}
	return bytes
}

// scratch is what products and their library need: rounded copies of the factors that are not activations, which are
// the gradients of the residual and of logits, and what adapters compute between their matrices.
func (j Job) scratch() int64 {
	bytes := int64(0)
	if j.Mode == gpu.Fast {
		bytes += workspaceBytes
	}
	if j.Products != gpu.BF16 {
		return bytes
	}
	rank := int64(0)
	for _, a := range j.Adapters {
		rank = max(rank, int64(a.Rank))
	}
	var left, right int64
	if j.Training != nil {
		t := j.Training.WithDefaults(j.Model)
		left = int64(t.Tokens) * rank
		if !t.ScoreOnly {
			left = max(left, int64(t.Tokens)*int64(j.Model.Width), int64(t.LogitRows)*int64(j.Model.Vocab))
			right = int64(t.Tokens) * rank
		}
	}
	if j.Rollouts != nil {
		left = max(left, int64(j.Rollouts.Rows)*rank)
	}
	return bytes + 2*(left+right)
}

// checkRoom is the most that the check of a product takes, of those with the model's own matrices.
func (j Job) checkRoom() (most int64) {
	if j.Mode != gpu.Fast {
		return 0
	}
	m := j.Model
	product := func(rows, n, k int, trained bool) {
		kind := j.Products
		check := func(m, n, k int) {
			most = max(most, 4*int64(m)*int64(n)+int64(kind.Size())*int64(k)*int64(max(m, n)))
		}
		check(n, rows, k)
		if trained {
			check(k, rows, n)
			check(k, n, rows)
		}
	}
	shapes := func(rows, targets int, trained bool) {
		product(rows, m.H*m.D, m.Width, trained)
		product(rows, m.Hidden, m.Width, trained)
		product(targets, m.Vocab, m.Width, trained)
	}
	if j.Training != nil {
		t := j.Training.WithDefaults(m)
		shapes(t.Tokens, t.LogitRows, !t.ScoreOnly)
	}
	if j.Rollouts != nil {
		shapes(j.Rollouts.Rows, j.Rollouts.Wanted, false)
	}
	return most
}

// Total is the sum.
func (p Plan) Total() (bytes int64) {
	for _, x := range p {
		bytes += x.Bytes
	}
	return bytes
}

// String is a line a part and one for the sum.
func (p Plan) String() string {
	var b strings.Builder
	for _, x := range p {
		fmt.Fprintf(&b, "%10s  %s\n", size(x.Bytes), x.What)
	}
	fmt.Fprintf(&b, "%10s  in all\n", size(p.Total()))
	return b.String()
}

// Fits refuses what is more than can be had of a card.
func (p Plan) Fits(memory int64) error {
	if p.Total() <= memory {
		return nil
	}
	return &Error{
		Code: outOfMemory, Name: "CUDA_ERROR_OUT_OF_MEMORY", Remedy: lowerMemory,
		Doing: fmt.Sprintf("plan %s where %s are to be had:\n%s", size(p.Total()), size(memory), p),
	}
}
