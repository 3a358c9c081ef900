package gpu

// Parameters is how many numbers a model of this shape has.
func (c Config) Parameters() int64 {
	var n int64
	for _, t := range c.tensors() {
		n += int64(size(t.Shape))
	}
	return n
}

// Matrices is how many of them are in the matrices that rows are multiplied by: all but
// norms, and but a table of embeddings that is not the head, too.
func (c Config) Matrices() int64 {
	var n int64
	for _, t := range c.tensors() {
		if len(t.Shape) > 1 {
			n += int64(size(t.Shape))
		}
	}
	if !c.Tied {
		n -= int64(c.Vocab) * int64(c.Width)
	}
	return n
}

// TrainingBytes is what NewTrainer would allocate for activations and scratch, on any model of this shape with
// these adapters: beside weights, gradients and moments, which take 4 bytes a parameter each. Nothing is allocated.
func (c Config) TrainingBytes(t TrainerConfig, adapters ...AdapterConfig) int64 {
	trainer := &Trainer{TrainerConfig: t.WithDefaults(c), forward: forward{Model: &Model{Config: c}}, rank: greatestRank(adapters)}
	return trainer.plan().bytes()
}

// RolloutBytes is what NewRunner would allocate, on any model of this shape with these
// adapters, its KV arena included. Nothing is allocated.
func (c Config) RolloutBytes(r RunnerConfig, adapters ...AdapterConfig) int64 {
	runner := &Runner{RunnerConfig: r, forward: forward{Model: &Model{Config: c}}, rank: greatestRank(adapters)}
	return runner.plan().bytes()
}

func greatestRank(adapters []AdapterConfig) (rank int) {
	for _, a := range adapters {
		rank = max(rank, a.Rank)
	}
	return rank
}

// AdapterParameters is how many numbers an adapter on a model of this shape has.
func (c Config) AdapterParameters(a AdapterConfig) (int64, error) {
	targets, err := a.targets()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range targets {
		rows, columns := c.projShape(p)
		n += c.Layers * a.Rank * (rows + columns)
	}
	return int64(n), nil
}

// WithDefaults fills in what depends on the model.
func (t TrainerConfig) WithDefaults(c Config) TrainerConfig {
	if t.Targets == 0 {
		t.Targets = t.Tokens
	}
	if t.LogitRows == 0 {
		t.LogitRows = max(64, (64<<20)/(4*c.Vocab))
	}
	t.LogitRows = min(t.LogitRows, t.Targets)
	return t
}
