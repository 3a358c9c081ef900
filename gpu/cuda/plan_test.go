package cuda_test

import (
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
)

// The memory of training is what one works out by hand, for the sizes of Qwen3: parameters as
// published, 16 bytes each (weights, gradients, two moments) and 2 more for each in a matrix that
// rows are multiplied by.
func TestPlan(t *testing.T) {
	t.Parallel()
	const card = 141e9
	for _, c := range []struct {
		name       string
		parameters int64
		norms      int64 // parameters that no row is multiplied by
		fits       bool
	}{
		{"0.6B", 596_049_920, 28*(2*1024+2*128) + 1024, true},
		{"1.7B", 1_720_574_976, 28*(2*2048+2*128) + 2048, true},
		{"4B", 4_022_468_096, 36*(2*2560+2*128) + 2560, true},
		{"8B", 8_190_735_360, 36*(2*4096+2*128) + 4096 + 151936*4096, false}, // its head is not its embedding
	} {
		shape := qwen3Shapes()[c.name]
		training := gpu.TrainerConfig{Tokens: 4096, Checkpoint: true}
		plan, err := cuda.Job{Model: shape, Products: gpu.BF16, Trained: true, Training: &training}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		training.Activations = gpu.BF16
		states := 16*c.parameters + 2*(c.parameters-c.norms)
		const logits = 110 * 151936                         // of 64 MiB
		rounded := int64(2 * max(4096*shape.Width, logits)) // the gradient of the residual, or of logits
		attention := int64(4096 * shape.H * 4)              // Σ out·dout
		if got, want := plan.Total(), states+shape.TrainingBytes(training)+rounded+attention; got != want {
			t.Errorf("%s: %d bytes, want %d\n%s", c.name, got, want, plan)
		}
		if err := plan.Fits(card); (err == nil) != c.fits {
			t.Errorf("%s on a card of 141 GB: %v", c.name, err)
		}
	}
}

// 8B fits on 141 GB when all of its weights are trained, with moments in bfloat16.
func TestPlanWithHalfMoments(t *testing.T) {
	t.Parallel()
	shape, training := qwen3Shapes()["8B"], gpu.TrainerConfig{Tokens: 4096, Checkpoint: true}
	job := cuda.Job{Model: shape, Products: gpu.BF16, Trained: true, Training: &training}
	whole, err := job.Plan()
	if err != nil {
		t.Fatal(err)
	}
	job.Moments = gpu.BF16
	half, err := job.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if saved := whole.Total() - half.Total(); saved != 4*8_190_735_360 {
		t.Errorf("moments in bfloat16 save %d bytes", saved)
	}
	if err := half.Fits(141e9); err != nil {
		t.Error(err)
	}
}

// 8B fits on 141 GB when an adapter is trained, with its rollouts beside it.
func TestPlanOfAdapter(t *testing.T) {
	t.Parallel()
	shape := qwen3Shapes()["8B"]
	training := gpu.TrainerConfig{Tokens: 8192, Checkpoint: true}
	rollouts := gpu.RunnerConfig{Pages: 4096, Rows: 512, Wanted: 256, Sequences: 256, Context: 4096}
	adapters := []gpu.AdapterConfig{{Rank: 16, Alpha: 32}}
	plan, err := cuda.Job{
		Model: shape, Products: gpu.BF16, Stored: gpu.BF16, Training: &training, Rollouts: &rollouts, Adapters: adapters,
	}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Fits(141e9); err != nil {
		t.Error(err)
	}
	training.Activations, rollouts.KV, rollouts.Activations = gpu.BF16, gpu.BF16, gpu.BF16
	// A (16,K) and B (N,16) beside q, k, v, o, gate, up and down.
	const adapter = 36 * 16 * ((4096 + 4096) + 2*(1024+4096) + (4096 + 4096) + 3*(4096+12288))
	want := int64(2*8_190_735_360 + 18*adapter)
	const splits = 512 * 32                                     // of a row's 4096 keys
	const attention = 8192*32*4 + splits*32*4*(128+2) + 4*1<<16 // 3 numbers of each split, and room to grow
	const products = 2 * (8192*4096 + 8192*16)                  // the gradient of the residual; what lies between A and B
	got := plan.Total() - shape.TrainingBytes(training, adapters...) - shape.RolloutBytes(rollouts, adapters...) - products - attention
	if got != want {
		t.Errorf("weights and adapter take %d bytes, want %d\n%s", got, want, plan)
	}
	err = plan.Fits(30e9)
	if err == nil || !strings.Contains(err.Error(), "where 27.9 GiB are to be had") || !strings.Contains(err.Error(), "keys, values and activations of rollouts") {
		t.Errorf("on a card of 30 GB: %v", err)
	}
}

// A plan is what a training and its rollouts really take, but for what each allocation is rounded up by.
func TestPlanIsWhatIsTaken(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]cuda.Options{"exact": {Products: gpu.BF16}, "float32": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, o)
			shape := small()
			shape.Context, shape.Vocab, shape.Width, shape.Hidden = 256, 5000, 64, 160
			m, err := gpu.NewRandom(d, shape, 1)
			if err != nil {
				t.Fatal(err)
			}
			r := run{}
			training, rollouts := gpu.TrainerConfig{Tokens: 64, Checkpoint: true}, gpu.RunnerConfig{Pages: 64, Rows: 32, Wanted: 16, Sequences: 8, Context: 256}
			if r.trainer, err = m.NewTrainer(training); err != nil {
				t.Fatal(err)
			}
			adamW := gpu.DefaultAdamW(1e-3)
			adamW.Moments = gpu.BF16
			if r.optimiser, err = r.trainer.NewAdamW(adamW); err != nil {
				t.Fatal(err)
			}
			if _, err := m.NewRunner(rollouts); err != nil {
				t.Fatal(err)
			}
			r.steps(t, 1)
			plan, err := cuda.Job{
				Model: shape, Products: o.Products, Trained: true, Training: &training, Moments: gpu.BF16, Rollouts: &rollouts,
			}.Plan()
			if err != nil {
				t.Fatal(err)
			}
			// A step smaller than the trainer's leaves scratch untaken.
			if taken := d.Taken(); taken > plan.Total() || float64(taken) < 0.9*float64(plan.Total()) {
				t.Errorf("%d bytes are taken, planned are %d:\n%s", taken, plan.Total(), plan)
			}
		})
	}
}

// So is a plan of an adapter that is trained, on weights as their files hold them, which are rounded to copies.
func TestPlanOfAdapterIsWhatIsTaken(t *testing.T) {
	t.Parallel()
	shape := small()
	shape.Context, shape.Vocab, shape.Width, shape.Hidden, shape.Tied = 256, 5000, 64, 160, false
	dir, adapter := t.TempDir(), gpu.AdapterConfig{Rank: 8, Alpha: 16}
	training, rollouts := gpu.TrainerConfig{Tokens: 64, LogitRows: 7}, gpu.RunnerConfig{Pages: 64, Rows: 32, Wanted: 16, Sequences: 8, Context: 256}
	drawn, err := gpu.NewRandom(open(t, cuda.Options{}), shape, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := drawn.Save(dir, gpu.F16); err != nil {
		t.Fatal(err)
	}
	d := open(t, cuda.Options{Products: gpu.BF16})
	m, err := gpu.Load(d, dir, gpu.LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.AddAdapter("act", adapter, 1); err != nil {
		t.Fatal(err)
	}
	config := training
	config.Adapters = []string{"act"}
	r := run{}
	if r.trainer, err = m.NewTrainer(config); err != nil {
		t.Fatal(err)
	}
	if r.optimiser, err = r.trainer.NewAdamW(gpu.DefaultAdamW(1e-3)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewRunner(rollouts); err != nil {
		t.Fatal(err)
	}
	r.steps(t, 1)
	plan, err := cuda.Job{
		Model: shape, Products: gpu.BF16, Stored: gpu.F16, Adapters: []gpu.AdapterConfig{adapter}, Training: &training, Rollouts: &rollouts,
	}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if taken := d.Taken(); taken > plan.Total() || float64(taken) < 0.9*float64(plan.Total()) {
		t.Errorf("%d bytes are taken, planned are %d:\n%s", taken, plan.Total(), plan)
	}
}

// What products round for themselves is what is not an activation: the gradients of the residual or of logits, and what
// lies between an adapter's matrices.
func TestPlanOfRoundedFactors(t *testing.T) {
	t.Parallel()
	shape := qwen3Shapes()["0.6B"]
	const tokens, rows, rank, logits = 512, 64, 16, 8
	training := gpu.TrainerConfig{Tokens: tokens, LogitRows: logits}
	scoring := gpu.TrainerConfig{Tokens: tokens, LogitRows: logits, ScoreOnly: true}
	rollouts := gpu.RunnerConfig{Pages: 64, Rows: rows, Wanted: 16, Sequences: 8, Context: 256}
	adapters := []gpu.AdapterConfig{{Rank: rank / 2, Alpha: 32}, {Rank: rank, Alpha: 32}}
	for name, c := range map[string]struct {
		job  cuda.Job
		want int64 // elements
	}{
		"training":                {cuda.Job{Training: &training, Trained: true}, logits * 151936},
		"training of adapters":    {cuda.Job{Training: &training, Adapters: adapters}, logits*151936 + tokens*rank},
		"scoring":                 {cuda.Job{Training: &scoring}, 0},
		"scoring with adapters":   {cuda.Job{Training: &scoring, Adapters: adapters}, tokens * rank},
		"rollouts":                {cuda.Job{Rollouts: &rollouts}, 0},
		"rollouts with adapters":  {cuda.Job{Rollouts: &rollouts, Adapters: adapters}, rows * rank},
		"adapters, products F32":  {cuda.Job{Rollouts: &rollouts, Training: &training, Adapters: adapters, Products: gpu.F32}, 0},
		"scoring beside rollouts": {cuda.Job{Rollouts: &rollouts, Training: &scoring, Adapters: adapters}, tokens * rank},
	} {
		c.job.Model = shape
		if name != "adapters, products F32" {
			c.job.Products = gpu.BF16
		}
		if got := planned(t, c.job, "scratch of products"); got != 2*c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, 2*c.want)
		}
	}
}

// Weights of another type than products read are rounded to a copy: those in half precision, too.
func TestPlanOfRoundedWeights(t *testing.T) {
	t.Parallel()
	shape := small()
	for stored, want := range map[gpu.DType]int64{gpu.BF16: 0, gpu.F16: 2 * shape.Matrices(), gpu.F32: 2 * shape.Matrices()} {
		if got := planned(t, cuda.Job{Model: shape, Products: gpu.BF16, Stored: stored}, "matrices again, rounded for products"); got != want {
			t.Errorf("stored as %v: %d bytes are planned for copies, want %d", stored, got, want)
		}
		d := open(t, cuda.Options{Products: gpu.BF16})
		const n, k = 8, 16
		b, err := d.Alloc(stored, n*k)
		if err != nil {
			t.Fatal(err)
		}
		before := d.Taken()
		d.NewWeight(b, n, k)
		if copied := d.Taken() > before; copied != (want > 0) {
			t.Errorf("a weight stored as %v is copied: %t", stored, copied)
		}
	}
}

// planned is the bytes of one part of a plan; 0 where it has no such part.
func planned(t *testing.T, j cuda.Job, what string) (bytes int64) {
	t.Helper()
	plan, err := j.Plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range plan {
		if part.What == what {
			bytes += part.Bytes
		}
	}
	return bytes
}
