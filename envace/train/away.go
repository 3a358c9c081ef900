package train

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace"
	"understudy/gpu"
)

// Farm deals out rollouts to workers on other machines. What it carries is bytes; the
// queue's farm is one.
type Farm interface {
	// Post says what the run is; Posted is what it said.
	Post(ctx context.Context, notice []byte) error
	Posted(ctx context.Context) ([]byte, error)
	// Put keeps content under its SHA-256, in hexadecimal; Get copies it and fails
	// unless it has that digest; Drop forgets it.
	Put(ctx context.Context, content io.ReadSeeker) (digest string, err error)
	Get(ctx context.Context, digest string, into io.Writer) error
	Drop(ctx context.Context, digest string) error
	// Do has pieces done elsewhere and takes what comes back: each piece once, in any
	// order, and nothing that was done with another version.
	Do(ctx context.Context, pieces []Piece, take func(id string, data []byte) error) error
	// Work does pieces here until ctx ends.
	Work(ctx context.Context, do func(ctx context.Context, p Piece) ([]byte, error)) error
}

// Piece is one rollout to be done, or whatever a farm carries.
type Piece struct {
	ID      string
	Version string // of the weights
	Data    []byte
}

// Contract is everything that a rollout depends on beside the weights. Trainer and
// workers compare it field by field: a rollout of another contract would be another one.
type Contract struct {
	Wire   int    `json:"wire"` // version of the notation
	Recipe string `json:"recipe"`
	Arm    Arm    `json:"arm"`
	Seed   uint64 `json:"seed"`
	Format string `json:"format"`
	Tools  string `json:"tools"`
	Tasks  string `json:"tasks"`
	Told   string `json:"told"`  // the rules that the agent is told
	Rules  string `json:"rules"` // by which answers are read
}

const wireVersion = 3

// contract computes what rollouts of the configuration depend on. How long the
// training is, and how it is evaluated, are no part of it.
func (c Config) contract(ctx context.Context) (Contract, error) {
	r := c.Recipe
	r.Steps, r.Checkpoints, r.Evaluation, r.About, r.Scale = 1, Checkpoint{}, Evaluation{}, "", ""
	digest, err := r.Digest()
	if err != nil {
		return Contract{}, err
	}
	var tools []audit.Tool
	told := ""
	if c.Environment != nil {
		if tools, err = c.Environment.Tools(ctx); err != nil {
			return Contract{}, fmt.Errorf("list the tools: %w", err)
		}
		told = c.Environment.Info().Policy
	}
	scenes := map[string]any{} // who speaks for the user follows from the recipe
	for task, scene := range c.Scenes {
		scenes[task] = []any{scene.Told, scene.Tools}
	}
	out := Contract{Wire: wireVersion, Recipe: digest.String(), Arm: c.Arm, Seed: c.Seed, Rules: c.Rules.Digest().String()}
	for into, part := range map[*string]any{&out.Tools: []any{tools, scenes}, &out.Tasks: c.Train, &out.Told: told} {
		text, err := json.Marshal(part)
		if err != nil {
			return Contract{}, fmt.Errorf("encode what rollouts depend on: %w", err)
		}
		*into = audit.Digest(sha256.Sum256(text)).String()
	}
	if digest, err = c.Format.Digest(); err != nil {
		return Contract{}, fmt.Errorf("identify the format: %w", err)
	}
	out.Format = digest.String()
	return out, nil
}

// compare is an *audit.Error that names every field in which a worker's contract
// differs from the run's.
func (c Contract) compare(here Contract) error {
	var differ []string
	for _, f := range []struct {
		name        string
		there, here any
	}{
		{"notation", c.Wire, here.Wire},
		{"recipe", c.Recipe, here.Recipe},
		{"arm", c.Arm, here.Arm},
		{"seed", c.Seed, here.Seed},
		{"format", c.Format, here.Format},
		{"tools", c.Tools, here.Tools},
		{"tasks", c.Tasks, here.Tasks},
		{"what the agent is told", c.Told, here.Told},
		{"rules of answers", c.Rules, here.Rules},
	} {
		if f.there != f.here {
			differ = append(differ, fmt.Sprintf("%s is %s there and %s here", f.name, brief(f.there), brief(f.here)))
		}
	}
	if differ == nil {
		return nil
	}
	return &audit.Error{
		Code: audit.CodeConflict, Message: "this worker would roll out something else than the run trains on: " + strings.Join(differ, ", "),
		Hint: "run the same build with the same recipe, arm, seed, environment, --rules and --path-policy",
	}
}

// brief is enough of a digest to tell it from another.
func brief(value any) string {
	text := fmt.Sprint(value)
	return text[:min(len(text), 16)]
}

// away has rollouts done by a farm.
type away struct {
	farm    Farm
	version string   // of the weights that were published last
	step    int      // at which
	blobs   []string // that it needs
	old     []string // of the versions before, to be dropped
}

// weightFiles are a version of the weights: the files of each parameter set, by
// digest. Its own digest is the version's name.
type weightFiles map[string]map[string]string

// publish stores the weights of the step, once, and names their version.
func (t *Trainer) publish(ctx context.Context) (string, error) {
	a := t.away
	if a.version != "" && a.step == t.step {
		return a.version, nil
	}
	if a.version == "" {
		contract, err := t.contract(ctx)
		if err != nil {
			return "", err
		}
		notice, err := json.Marshal(contract)
		if err != nil {
			return "", fmt.Errorf("encode the contract: %w", err)
		}
		if err := a.farm.Post(ctx, notice); err != nil {
			return "", err
		}
	}
	folder, err := os.MkdirTemp("", "understudy-weights-")
	if err != nil {
		return "", fmt.Errorf("make room for the weights: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	files, blobs := weightFiles{}, []string(nil)
	for _, l := range t.learners {
		set := filepath.Join(folder, setName(l.set))
		if err := l.model.Save(set, gpu.F32); err != nil {
			return "", err
		}
		stored, err := a.put(ctx, set)
		if err != nil {
			return "", fmt.Errorf("publish the weights of step %d: %w", t.step, err)
		}
		files[setName(l.set)] = stored
		for _, digest := range stored {
			blobs = append(blobs, digest)
		}
	}
	list, err := json.Marshal(files)
	if err != nil {
		return "", fmt.Errorf("encode the list of weights: %w", err)
	}
	version, err := a.farm.Put(ctx, bytes.NewReader(list))
	if err != nil {
		return "", err
	}
	return version, a.replace(ctx, version, t.step, append(blobs, version))
}

// put stores every file of a folder.
func (a *away) put(ctx context.Context, folder string) (map[string]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list the weights: %w", err)
	}
	stored := map[string]string{}
	for _, entry := range entries {
		file, err := os.Open(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the weights: %w", err)
		}
		stored[entry.Name()], err = a.farm.Put(ctx, file)
		_ = file.Close() // it was only read
		if err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// replace makes a version the current one and forgets those before the last, which a
// slow worker may still be fetching.
func (a *away) replace(ctx context.Context, version string, step int, blobs []string) error {
	for _, digest := range a.old {
		if slices.Contains(blobs, digest) || slices.Contains(a.blobs, digest) {
			continue
		}
		if err := a.farm.Drop(ctx, digest); err != nil {
			return fmt.Errorf("forget old weights: %w", err)
		}
	}
	a.version, a.step, a.old, a.blobs = version, step, a.blobs, blobs
	return nil
}

// order is one rollout that is wanted.
type order struct {
	Task int    `json:"task"` // of the training set
	Seed uint64 `json:"seed"`

	draw, k int
}

// rollAway is rollGroups elsewhere: the same draws, tasks and seeds. Grading happens
// here, so that judges and their limits stay the trainer's.
func (t *Trainer) rollAway(ctx context.Context, n int) ([][]rolled, error) {
	version, err := t.publish(ctx)
	if err != nil {
		return nil, err
	}
	first := t.cursor
	t.cursor += n
	orders, pieces := map[string]order{}, []Piece(nil)
	groups := make([][]rolled, n)
	for i := range groups {
		groups[i] = make([]rolled, t.Recipe.Rollout.Rollouts)
		for k := range groups[i] {
			o := order{Task: t.draw(first + i), Seed: t.derive("rollout", first+i, k), draw: first + i, k: k}
			data, err := json.Marshal(o)
			if err != nil {
				return nil, fmt.Errorf("encode an order: %w", err)
			}
			id := fmt.Sprintf("%d/%d/%d", t.step+1, o.draw, k)
			orders[id], pieces = o, append(pieces, Piece{ID: id, Version: version, Data: data})
		}
	}
	err = t.away.farm.Do(ctx, pieces, func(id string, data []byte) error {
		o, ordered := orders[id]
		if !ordered {
			return fmt.Errorf("rollout %q came back, which nobody ordered", id)
		}
		task := t.Train[o.Task]
		rollout := t.rolloutOf(task)
		trajectory, err := unpackRollout(data, envace.Transcript{Task: task, Policy: rollout.Told, Memory: rollout.Memory, Tools: rollout.Tools}, t.Format)
		if err != nil {
			return fmt.Errorf("rollout %s: %w", id, err)
		}
		grade, err := t.Grader.Grade(ctx, trajectory)
		groups[o.draw-first][o.k] = rolled{trajectory, grade, fmt.Sprintf("%d/%s", o.draw, task.ID)}
		return err
	})
	return groups, err
}
