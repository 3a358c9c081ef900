package eval

import (
	"context"
	"fmt"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/envace"
)

// stateOf is the state of a session at a JSON Pointer.
func stateOf(ctx context.Context, session audit.Session) (diff.Value, error) {
	stater, ok := session.(audit.Stater)
	if !ok {
		return diff.Value{}, fmt.Errorf("%T does not tell its state", session)
	}
	text, err := stater.State(ctx, "")
	if err != nil {
		return diff.Value{}, fmt.Errorf("look at the state: %w: %w", envace.ErrWorld, err)
	}
	value, err := diff.Decode(text, diff.DefaultLimits())
	if err != nil {
		return diff.Value{}, fmt.Errorf("read the state: %w: %w", envace.ErrWorld, err)
	}
	return value, nil
}

// differingState is where the state of a differs from b's first; "" = nowhere.
func differingState(ctx context.Context, a, b audit.Session) (string, error) {
	left, err := stateOf(ctx, a)
	if err != nil {
		return "", err
	}
	right, err := stateOf(ctx, b)
	if err != nil {
		return "", err
	}
	if diff.Equal(left, right) {
		return "", nil
	}
	if patch := diff.Cells(right, left); len(patch) > 0 {
		return patch[0].Path, nil
	}
	return "/", nil
}
