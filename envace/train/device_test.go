package train_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"understudy/envace/train"
	"understudy/gpu"
	"understudy/gpu/host"
)

// counted is a device that says when it is given back.
type counted struct {
	*host.Device
	given *atomic.Int64
	once  atomic.Bool
}

func (c *counted) Close() {
	c.Device.Close()
	if c.once.CompareAndSwap(false, true) {
		c.given.Add(1)
	}
}

// A worker opens a device for each version of the weights, and a sweep for each run:
// whatever is opened is given back when nothing works on it any more.
func TestDevicesAreGivenBack(t *testing.T) {
	t.Parallel()
	c, r := quick(t)
	var opened, given atomic.Int64
	plain := r.Device
	r.Device = func(mode gpu.Mode) (gpu.Device, error) {
		device, err := plain(mode)
		opened.Add(1)
		return &counted{Device: device.(*host.Device), given: &given}, err
	}
	check := func(reason string, least int64) {
		t.Helper()
		if opened.Load() < least || given.Load() != opened.Load() {
			t.Errorf("%s: %d devices of %d were given back", reason, given.Load(), opened.Load())
		}
	}
	trainer, err := train.Open(t.Context(), c, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := trainer.Close(); err != nil {
		t.Fatal(err)
	}
	check("a warm start and a training", 2)
	base := c
	base.Arm = train.ArmBase
	player, err := train.OpenPlayer(base, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := player.Close(); err != nil {
		t.Fatal(err)
	}
	check("a player", 3)
	full := errors.New("no room")
	r.Planned = func(gpu.Device, train.Plan) error { return full }
	if _, err := train.Open(t.Context(), c, r); !errors.Is(err, full) {
		t.Errorf("a device without room: %v", err)
	}
	check("a training that does not fit", 4)
}
