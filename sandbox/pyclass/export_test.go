package pyclass

import "time"

// Hurry lets calls take so long from now on, and returns how long they might.
func Hurry(e *Environment, timeout time.Duration) (before time.Duration) {
	before, e.spec.Timeout = e.spec.Timeout, timeout
	return before
}
