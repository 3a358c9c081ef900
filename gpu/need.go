package gpu

// Parameters is how many numbers a model of this shape has.
func (c Config) Parameters() int64 {
	var n int64
	for _, t := range c.tensors() {
		n += int64(size(t.Shape))
	}
	return n
}

// TrainingBytes is what NewTrainer would allocate for activations and scratch, on
// any model of this shape without adapters: beside weights, gradients and moments,
// which take 4 bytes a parameter each. Nothing is allocated.
func (c Config) TrainingBytes(t TrainerConfig) int64 {
	model := &Model{Config: c}
	trainer := &Trainer{TrainerConfig: t.withDefaults(c), forward: forward{Model: model}}
	return trainer.plan().bytes()
}

// withDefaults fills in what depends on the model.
func (t TrainerConfig) withDefaults(c Config) TrainerConfig {
	if t.Targets == 0 {
		t.Targets = t.Tokens
	}
	if t.LogitRows == 0 {
		t.LogitRows = max(64, (64<<20)/(4*c.Vocab))
	}
	t.LogitRows = min(t.LogitRows, t.Targets)
	return t
}
