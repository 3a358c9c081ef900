package train

import (
	"errors"
	"fmt"

	"understudy/audit"
	"understudy/envace/tiny"
	"understudy/gpu"
	"understudy/gpu/safetensors"
)

// Runtime is what a run needs of its machine.
type Runtime struct {
	Out string // folder of all arms and seeds of the recipe
	// Device makes a device; each parameter set has one of its own.
	Device func(mode gpu.Mode) (gpu.Device, error)
}

// Names of recipes for the engine's modes, and for the types of moments.
const (
	modeExact       = "exact"
	modeFast        = "fast"
	momentsFloat32  = "float32"
	momentsBFloat16 = "bfloat16"
)

// EngineMode is the mode that the recipe trains in.
func (r Recipe) EngineMode() gpu.Mode {
	if r.Mode == modeFast {
		return gpu.Fast
	}
	return gpu.Exact
}

func (r Recipe) moments() gpu.DType {
	if r.Optimizer.Moments == momentsBFloat16 {
		return gpu.BF16
	}
	return gpu.F32
}

// open makes a device that can train the recipe.
func (r Runtime) open(recipe Recipe) (gpu.Device, error) {
	device, err := r.Device(recipe.EngineMode())
	if err != nil {
		return nil, fmt.Errorf("open a device: %w", err)
	}
	if _, ok := device.(gpu.HalfMoments); !ok && recipe.moments() == gpu.BF16 {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("recipe %s keeps moments in bfloat16, and %s keeps them in float32 only", recipe.Name, device.Name()),
			Hint: "leave optimizer.moments out, or train on a card: --device cuda",
		}
	}
	return device, nil
}

// done gives back what a device holds that nothing works on any more, where it can: another may be on
// the same card.
func done(device gpu.Device) {
	if c, ok := device.(interface{ Close() }); ok {
		c.Close()
	}
}

// Plan is what a parameter set takes of its device.
type Plan struct {
	Set       audit.PolicyRole
	Model     gpu.Config
	Trainer   gpu.TrainerConfig
	Moments   gpu.DType
	Rollouts  gpu.RunnerConfig
	Longest   int       // most tokens of a row
	Reference bool      // the policy before the training is scored beside it, for the KL term
	Stored    gpu.DType // its type
}

// Plans is what each parameter set of a run takes; kv is the type of the device's KV arena (gpu.KVType). Nothing of the
// run has to be there but its model's folder or, in the tiny format, whose words are the model's vocabulary, Format.
func (c Config) Plans(kv gpu.DType) ([]Plan, error) {
	model, stored, err := c.begins()
	if err != nil {
		return nil, err
	}
	return c.PlansOf(model, stored, kv)
}

// PlansOf is Plans of a run of a model of this shape, whose files are of the type stored.
func (c Config) PlansOf(model gpu.Config, stored, kv gpu.DType) (plans []Plan, err error) {
	if c.Recipe.WarmStart.Steps > 0 {
		stored = warmType
	}
	how := c.learning()
	rollouts, err := how.generator.Runner(model, kv)
	if err != nil {
		return nil, err
	}
	for _, set := range c.Arm.sets() {
		plans = append(plans, Plan{
			Set: set, Model: model, Trainer: how.trainer, Moments: how.optimizer.Moments, Rollouts: rollouts, Longest: c.Recipe.longestRow(),
			Reference: c.Recipe.Loss.KL != 0, Stored: stored,
		})
	}
	return plans, nil
}

// warmType is that of the files that a warm start leaves.
const warmType = gpu.F32

// begins is the shape of the run's model, and the type of the files that it begins with.
func (c Config) begins() (model gpu.Config, stored gpu.DType, err error) {
	folder, warm := c.start("")
	if f, ok := c.Format.(tiny.Format); ok && warm {
		model = c.Recipe.Model.config(f.Vocabulary.Size())
		if err := model.Validate(); err != nil {
			return model, 0, &audit.Error{Code: audit.CodeInvalid, Message: "the model of recipe " + c.Recipe.Name, Err: err, Hint: "mend the dimensions that it says under model"}
		}
		return model, warmType, nil
	}
	if model, err = c.Recipe.Model.Real(); err != nil || warm {
		return model, warmType, err
	}
	if stored, err = storedType(folder); err != nil {
		return model, 0, unreadable(folder, err)
	}
	return model, stored, nil
}

// storedType is that of the largest tensor of a folder's files.
func storedType(folder string) (kind gpu.DType, err error) {
	file, err := safetensors.Open(folder)
	if err != nil {
		return 0, fmt.Errorf("read model: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	most := 0
	for _, t := range file.Tensors() {
		if n := t.Len(); n > most {
			most = n
			kind = map[safetensors.Type]gpu.DType{safetensors.BF16: gpu.BF16, safetensors.F16: gpu.F16}[t.Type]
		}
	}
	return kind, nil
}
