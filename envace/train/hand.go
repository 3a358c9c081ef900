package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"understudy/audit"
)

// RollOut is a worker: it rolls out what the run of the same configuration orders,
// under the weights that each order names, until ctx ends. It waits for a run that has
// not begun; one that trains on something else is an *audit.Error that says in what it
// differs. dir keeps the weights under way; "" = the system's folder for such files.
func RollOut(ctx context.Context, c Config, r Runtime, farm Farm, dir string) error {
	here, err := c.contract(ctx)
	if err != nil {
		return err
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	notice, err := awaitRun(ctx, farm, c.Progress)
	if err != nil {
		return err
	}
	var there Contract
	if err := json.Unmarshal(notice, &there); err != nil {
		return fmt.Errorf("read what the run is: %w", err)
	}
	if err := there.compare(here); err != nil {
		return err
	}
	h := &hand{config: c, runtime: r, farm: farm, dir: dir}
	err = farm.Work(ctx, h.do)
	return errors.Join(err, h.close())
}

// awaitRun is what the run says that it is, once it does.
func awaitRun(ctx context.Context, farm Farm, tell func(string)) ([]byte, error) {
	for told := false; ; told = true {
		notice, err := farm.Posted(ctx)
		if audit.ErrorCode(err) != audit.CodeNotFound {
			return notice, err
		}
		if !told {
			tell(err.Error() + " yet: waiting for it")
		}
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// hand is a worker with the weights that it has. Rollouts under one version go side by
// side; another version waits until they are done.
type hand struct {
	config  Config
	runtime Runtime
	farm    Farm
	dir     string

	mu      sync.RWMutex // held for reading by rollouts, for writing by a change of weights
	version string
	player  *Player
	trainer *Trainer // without parameter sets of its own: how tasks are rolled out
}

// do does one order.
func (h *hand) do(ctx context.Context, p Piece) ([]byte, error) {
	var o order
	if err := json.Unmarshal(p.Data, &o); err != nil {
		return nil, fmt.Errorf("read an order: %w", err)
	}
	if o.Task < 0 || o.Task >= len(h.config.Train) {
		return nil, fmt.Errorf("task %d of %d", o.Task, len(h.config.Train))
	}
	release, err := h.hold(ctx, p.Version)
	if err != nil {
		return nil, err
	}
	defer release()
	task := h.config.Train[o.Task]
	t, err := h.trainer.rolloutOf(task).Run(ctx, task, o.Seed)
	if err != nil {
		return nil, err
	}
	return packRollout(t)
}

// hold makes the version the loaded one and keeps it so until release.
func (h *hand) hold(ctx context.Context, version string) (release func(), err error) {
	for {
		h.mu.RLock()
		if h.version == version {
			return h.mu.RUnlock, nil
		}
		h.mu.RUnlock()
		if err := h.change(ctx, version); err != nil {
			return nil, err
		}
	}
}

func (h *hand) change(ctx context.Context, version string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.version == version {
		return nil
	}
	folder, err := h.fetch(ctx, version)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // the weights are in memory then
	if err := h.close(); err != nil {
		return err
	}
	player, err := loadPlayer(h.config, h.runtime, func(set audit.PolicyRole) string { return filepath.Join(folder, setName(set)) })
	if err != nil {
		return err
	}
	trainer, err := playing(ctx, h.config, player.Policy)
	if err == nil {
		trainer.rollout.Source, err = trainer.source()
	}
	if err != nil {
		return errors.Join(err, player.Close())
	}
	h.player, h.trainer, h.version = player, trainer, version
	h.config.Progress(fmt.Sprintf("rolling out under weights %.12s", version))
	return nil
}

// fetch copies a version's files, each checked against its digest.
func (h *hand) fetch(ctx context.Context, version string) (_ string, err error) {
	folder, err := os.MkdirTemp(h.dir, "weights-")
	if err != nil {
		return "", fmt.Errorf("make room for weights: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("fetch weights %.12s: %w", version, err), os.RemoveAll(folder))
		}
	}()
	list := filepath.Join(folder, "list.json")
	if err := h.copy(ctx, version, list); err != nil {
		return "", err
	}
	var files weightFiles
	if err := readJSON(list, &files); err != nil {
		return "", err
	}
	for set, digests := range files {
		for name, digest := range digests {
			if !filepath.IsLocal(set) || !filepath.IsLocal(name) {
				return "", fmt.Errorf("the list names %q in %q, which would lie outside of its folder", name, set)
			}
			path := filepath.Join(folder, set, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return "", err
			}
			if err := h.copy(ctx, digest, path); err != nil {
				return "", err
			}
		}
	}
	return folder, nil
}

func (h *hand) copy(ctx context.Context, digest, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(h.farm.Get(ctx, digest, file), file.Close())
}

// close frees the weights that are loaded.
func (h *hand) close() error {
	h.version = ""
	if h.player == nil {
		return nil
	}
	player := h.player
	h.player = nil
	return player.Close()
}
