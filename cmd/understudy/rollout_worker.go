package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
	"understudy/audit/queue"
	"understudy/envace/train"
)

func rolloutWorkerCommand() command {
	return command{
		name: "rollout-worker", summary: "roll out for a training on another machine, under the weights that it publishes, until stopped",
		example: "understudy rollout-worker --recipe tiny --arm envace --seed 1 --nats-url nats://queue.example:4222",
		setup: func(fs *flag.FlagSet) runFunc {
			f := trainFlags{}
			fs.StringVar(&f.recipe, "recipe", "tiny", "of the run, by its name or file")
			fs.StringVar(&f.arm, "arm", string(train.ArmEnvACE), "of the run")
			fs.Uint64Var(&f.seed, "seed", 1, "of the run")
			f.deviceFlags.register(fs)
			inFlight := fs.Int("in-flight", 64, "rollouts side by side: as many as the engine writes at once")
			f.policy.register(fs)
			return func(ctx context.Context, inv *invocation) error { return rollOut(ctx, inv, f, *inFlight) }
		},
	}
}

// rollOut is one worker. It needs neither a database nor the run's folder.
func rollOut(ctx context.Context, inv *invocation, f trainFlags, inFlight int) (err error) {
	if inv.config.NATSURL == "" {
		return usageError("a rollout worker without --nats-url", "name the NATS server of the training")
	}
	if inFlight < 1 {
		return usageError("--in-flight is too small", "give at least 1")
	}
	recipe, err := train.ReadRecipe(f.recipe)
	if err != nil {
		return err
	}
	if recipe.Format != "tiny" {
		return &audit.Error{Code: audit.CodeUnprocessable, Message: "recipe " + recipe.Name + " trains in the chat format", Hint: "rollout workers of this build speak the tiny format"}
	}
	arm, err := train.ParseArm(f.arm)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(string(inv.config.NATSURL), nats.Name("understudy rollout worker"), nats.MaxReconnects(-1))
	if err != nil {
		return natsError(err, inv.config.NATSURL)
	}
	defer conn.Close()
	t := &training{flags: f, recipe: recipe, inv: inv, envs: newEnvironments(inv.config)}
	defer func() { err = errors.Join(err, t.envs.Close()) }()
	c, err := t.prepare(ctx)
	if err != nil {
		return err
	}
	c.Arm, c.Seed, c.Source = arm, f.seed, t.sources[arm]
	dealt, err := newFarm(conn, farmName(recipe, arm, f.seed), queue.Config{InFlight: inFlight, Replicas: inv.config.StreamReplicas, Logger: inv.log})
	if err != nil {
		return err
	}
	engine := devices{deviceFlags: f.deviceFlags}
	defer engine.close()
	runtime := train.Runtime{Device: engine.next}
	inv.log.InfoContext(ctx, "rolling out", slog.String("run", farmName(recipe, arm, f.seed)), slog.Int("in_flight", inFlight))
	err = train.RollOut(ctx, c, runtime, dealt, "")
	if errors.Is(err, errInterrupted) {
		return nil // it was told to stop
	}
	return err
}

// farmName is what a run is called between machines.
func farmName(recipe train.Recipe, arm train.Arm, seed uint64) string {
	return fmt.Sprintf("%s-%s-s%d", recipe.Name, arm, seed)
}

// farm is the queue's, as a training knows it.
type farm struct{ *queue.Farm }

var _ train.Farm = farm{}

// newFarm opens the farm of a run; inFlight is a worker's, 0 in the run itself.
func newFarm(conn *nats.Conn, name string, c queue.Config) (train.Farm, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	f, err := queue.NewFarm(js, name, c)
	if err != nil {
		return nil, err
	}
	return farm{f}, nil
}

// Do implements train.Farm.
func (f farm) Do(ctx context.Context, pieces []train.Piece, take func(id string, data []byte) error) error {
	all := make([]queue.Piece, len(pieces))
	for i, p := range pieces {
		all[i] = queue.Piece(p)
	}
	return f.Farm.Do(ctx, all, take)
}

// Work implements train.Farm.
func (f farm) Work(ctx context.Context, do func(ctx context.Context, p train.Piece) ([]byte, error)) error {
	return f.Farm.Work(ctx, func(ctx context.Context, p queue.Piece) ([]byte, error) { return do(ctx, train.Piece(p)) })
}
