package queue

import "context"

// Waiting is how many finished jobs wait for the commit that is under way.
func (w *Worker) Waiting() int {
	w.group.mu.Lock()
	defer w.group.mu.Unlock()
	return len(w.group.waiting)
}

// Take is how many of n free hands a shift takes.
func Take(ctx context.Context, n int) int {
	return newShift(Config{InFlight: n}, nil).take(ctx)
}
