package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/local"
	"understudy/envace/tiny"
	"understudy/gpu"
	"understudy/gpu/generate"
)

// Player is the policy of a run at its last checkpoint, to be played and not trained.
type Player struct {
	Policy *local.Policy
	Step   int // of the checkpoint; 0 = the warm start

	models  []*gpu.Model
	engines []*generate.Engine
}

// Words are those that the runs of a seed speak.
func Words(out string, seed uint64) (*tiny.Vocabulary, error) {
	words, err := tiny.Read(filepath.Join(warmFolder(out, seed), wordsFile))
	if err != nil {
		return nil, &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("%s has no run with seed %d", out, seed), Err: err,
			Hint: "train one: understudy train --out " + out,
		}
	}
	return words, nil
}

// OpenPlayer loads the policy of the configuration's arm and seed. It trains nothing
// and needs nothing but recipe, arm, seed and format.
func OpenPlayer(c Config, r Runtime) (*Player, error) {
	digest, err := c.Recipe.Digest()
	if err != nil {
		return nil, err
	}
	path, at, err := latest(Folder(r.Out, c.Arm, c.Seed), state{Recipe: digest.String(), Arm: c.Arm, Seed: c.Seed})
	if err != nil {
		return nil, err
	}
	if path == "" && c.Arm != ArmBase {
		return nil, &audit.Error{
			Code: audit.CodeNotFound, Message: Folder(r.Out, c.Arm, c.Seed) + " has no checkpoint",
			Hint: fmt.Sprintf("understudy train --arm %s --seed %d --out %s", c.Arm, c.Seed, r.Out),
		}
	}
	p, err := loadPlayer(c, r, func(set audit.PolicyRole) string {
		if path != "" {
			return filepath.Join(path, setName(set))
		}
		start, warm := c.start(r.Out)
		if warm {
			return filepath.Join(start, setName(audit.WholePolicy))
		}
		return start
	})
	if err != nil {
		return nil, err
	}
	p.Step = at.Step
	return p, nil
}

// loadPlayer loads the arm's parameter sets from folders.
func loadPlayer(c Config, r Runtime, folder func(set audit.PolicyRole) string) (*Player, error) {
	p := &Player{Policy: &local.Policy{
		Format: c.Format, Temperature: c.Recipe.Rollout.Temperature, Engines: map[audit.PolicyRole]*generate.Engine{},
	}}
	for _, set := range c.Arm.sets() {
		if err := p.load(c, r, set, folder(set)); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

func (p *Player) load(c Config, r Runtime, set audit.PolicyRole, folder string) error {
	device, err := r.Device(gpu.Exact)
	if err != nil {
		return fmt.Errorf("open a device: %w", err)
	}
	model, err := gpu.Load(device, folder, gpu.LoadConfig{})
	if err != nil {
		done(device)
		return err
	}
	p.models = append(p.models, model)
	engine, err := generate.New(model, c.learning().generator)
	if err != nil {
		return fmt.Errorf("start the generator: %w", err)
	}
	p.engines = append(p.engines, engine)
	p.Policy.Engines[set] = engine
	return nil
}

// Imagine rolls each task out n times in the world that the policy plays itself.
func (p *Player) Imagine(ctx context.Context, c Config, tasks []audit.Task, n int) ([]*envace.Trajectory, error) {
	t, err := playing(ctx, c, p.Policy)
	if err != nil {
		return nil, err
	}
	rollout := t.rollout
	rollout.Source = t.rehearsing(false)
	trajectories := make([]*envace.Trajectory, len(tasks)*n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64) // as many as the generator batches
	for i := range trajectories {
		group.Go(func() error {
			var err error
			trajectories[i], err = rollout.Run(ctx, tasks[i/n], t.derive("imagine", i, p.Step))
			return err
		})
	}
	return trajectories, group.Wait()
}

// Close frees the parameters and gives back their devices.
func (p *Player) Close() error {
	for _, e := range p.engines {
		e.Close()
	}
	var errs []error
	for _, m := range p.models {
		errs = append(errs, m.Close())
		done(m.Device())
	}
	return errors.Join(errs...)
}
