package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"understudy/audit"
)

// unchanged reports whether acting on one session leaves another as it was.
func (c *contract) unchanged(ctx context.Context, watched, acting audit.Session) error {
	before, err := c.digestOf(ctx, watched)
	if err != nil {
		return err
	}
	obs, err := acting.Call(ctx, c.task.Solution[c.write])
	if err != nil {
		return err
	}
	after, err := c.digestOf(ctx, watched)
	switch {
	case err != nil:
		return err
	case obs.Status != audit.StatusOK || obs.Delta != nil && len(obs.Delta) == 0:
		return fmt.Errorf("the write did nothing: %s %s", obs.Status, brief(obs.Raw))
	case before != after:
		return errors.New("a write of one session changed another")
	}
	return nil
}

func (c *contract) isolated(ctx context.Context) (string, error) {
	one, err := c.prepared(ctx, audit.Start{})
	defer closing(one)
	if err != nil {
		return "", err
	}
	two, err := c.prepared(ctx, audit.Start{})
	defer closing(two)
	if err != nil {
		return "", err
	}
	err = c.unchanged(ctx, one, two)
	if errors.Is(err, errNotApplicable) { // nothing shows the state: the answers alone tell
		if _, err := two.Call(ctx, c.task.Solution[c.write]); err != nil {
			return "", err
		}
		return c.answersAlike(ctx, one)
	}
	if err != nil {
		return "", err
	}
	if _, err := c.answersAlike(ctx, one); err != nil {
		return "", err
	}
	return "a write of one is not seen by the other", nil
}

// answersAlike makes the write in a session whose like has made it before: it is
// answered as if it were the first, as in a third, fresh one.
func (c *contract) answersAlike(ctx context.Context, one audit.Session) (string, error) {
	fresh, want, err := c.written(ctx, audit.Start{})
	defer closing(fresh)
	if err != nil {
		return "", err
	}
	got, err := one.Call(ctx, c.task.Solution[c.write])
	switch {
	case err != nil:
		return "", err
	case got.Status != want.Status, c.env.Info().Deterministic && !bytes.Equal(got.Raw, want.Raw):
		return "", fmt.Errorf("the same write in sessions of their own is answered %s %s and %s %s", want.Status, brief(want.Raw), got.Status, brief(got.Raw))
	}
	return "the same write in three sessions has the same answer", nil
}

// shared interleaves two sessions on one state: what one writes, the other's next
// call starts from, so that the same write a second time meets the first.
func (c *contract) shared(ctx context.Context) (string, error) {
	if !c.can(audit.CanShare) {
		return "", notApplicable("sessions cannot share a state")
	}
	one, err := c.prepared(ctx, audit.Start{Shared: "contract"})
	defer closing(one)
	if err != nil {
		return "", err
	}
	two, err := c.env.Open(ctx, audit.Start{Task: c.task.ID, Shared: "contract"})
	defer closing(two)
	if err != nil {
		return "", err
	}
	obs, err := one.Call(ctx, c.task.Solution[c.write])
	if err != nil {
		return "", err
	}
	again, err := two.Call(ctx, c.task.Solution[c.write])
	if err != nil {
		return "", err
	}
	if again.Before != obs.After {
		return "", errors.New("the second session does not start from what the first one wrote")
	}
	return fmt.Sprintf("the same write from the other session: %s", again.Status), nil
}

func (c *contract) forks(ctx context.Context) (string, error) {
	s, err := c.prepared(ctx, audit.Start{})
	defer closing(s)
	if err != nil {
		return "", err
	}
	f, err := able[audit.Forker](c, s, audit.CanFork, "sessions cannot be forked")
	if err != nil {
		return "", err
	}
	fork, err := f.Fork(ctx)
	defer closing(fork)
	if err != nil {
		return "", err
	}
	if err := c.unchanged(ctx, s, fork); err != nil {
		return "", fmt.Errorf("parent: %w", err)
	}
	second, err := f.Fork(ctx)
	defer closing(second)
	if err != nil {
		return "", err
	}
	if err := c.unchanged(ctx, second, s); err != nil {
		return "", fmt.Errorf("fork: %w", err)
	}
	return "parent and fork do not see each other's writes", nil
}
