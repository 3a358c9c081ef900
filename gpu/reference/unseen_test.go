package reference_test

import (
	"testing"

	"understudy/gpu/devicetest"
	"understudy/gpu/reference"
)

// The device that others are held to keeps what they promise of attention.
func TestUnseen(t *testing.T) {
	t.Parallel()
	devicetest.Unseen(t, func(t *testing.T) *devicetest.Pair {
		t.Helper()
		return devicetest.NewPair(t, reference.New(reference.Single))
	})
}
