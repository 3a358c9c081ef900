package train

import (
	"errors"
	"fmt"

	"understudy/audit"
	"understudy/gpu"
	"understudy/gpu/safetensors"
)

// Runtime is what a run needs of its machine.
type Runtime struct {
	Out string // folder of all arms and seeds of the recipe
	// Device makes a device; each parameter set has one of its own.
	Device func(mode gpu.Mode) (gpu.Device, error)
	// Planned is told what a parameter set will take of its device, before anything is loaded; an
	// error ends the run there. Nil: nobody is told.
	Planned func(device gpu.Device, p Plan) error
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

// Plan works out what a parameter set of this shape takes; stored is the type of the files that it
// begins with, kv that of the device's KV arena (gpu.KVType).
func (c Config) Plan(set audit.PolicyRole, model gpu.Config, stored, kv gpu.DType) (Plan, error) {
	how := c.learning()
	rollouts, err := how.generator.Runner(model, kv)
	return Plan{
		Set: set, Model: model, Trainer: how.trainer, Moments: how.optimizer.Moments, Rollouts: rollouts, Longest: c.Recipe.longestRow(),
		Reference: c.Recipe.Loss.KL != 0, Stored: stored,
	}, err
}

// planned tells what a parameter set in a folder will take.
func (c Config) planned(r Runtime, device gpu.Device, set audit.PolicyRole, folder, start string) error {
	if r.Planned == nil {
		return nil
	}
	model, err := gpu.ReadConfig(folder)
	if err != nil {
		return err
	}
	stored, err := storedType(start)
	if err != nil {
		return err
	}
	plan, err := c.Plan(set, model, stored, gpu.KVType(device))
	if err != nil {
		return err
	}
	return r.Planned(device, plan)
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
