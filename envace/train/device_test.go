package train_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"understudy/audit"
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
	if err := os.WriteFile(filepath.Join(r.Out, fmt.Sprintf("warm-s%d", c.Seed), "policy", "model.safetensors"), []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := train.Open(t.Context(), c, r); err == nil {
		t.Error("a warm start that is damaged was opened")
	}
	check("a training whose warm start is damaged", 4)
}

// What a run takes is known before anything of it is there: the shape of the model that its warm start will leave, and
// a parameter set for each role where each has its own.
func TestPlansComeFirst(t *testing.T) {
	t.Parallel()
	c, r := quick(t)
	plans, err := c.Plans(gpu.F32)
	if err != nil || len(plans) != 1 {
		t.Fatalf("plans of one policy: %+v, %v", plans, err)
	}
	trainer, err := train.Open(t.Context(), c, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := trainer.Close(); err != nil {
		t.Fatal(err)
	}
	model, err := gpu.ReadConfig(filepath.Join(r.Out, fmt.Sprintf("warm-s%d", c.Seed), "policy"))
	if planned := plans[0].Model; err != nil || !reflect.DeepEqual(planned, model) {
		t.Errorf("planned is %+v, the warm start left %+v, %v", planned, model, err)
	}
	c.Arm = train.ArmPerRole
	if plans, err = c.Plans(gpu.F32); err != nil || len(plans) != 2 || plans[0].Set != audit.ActRole || plans[1].Set != audit.RehearseRole {
		t.Errorf("plans of a policy a role: %+v, %v", plans, err)
	}
	warm := plans[0].Stored
	if plans, err = c.PlansOf(model, gpu.BF16, gpu.F32); err != nil || warm != gpu.F32 || plans[0].Stored != warm {
		t.Errorf("planned are files of %v from a warm start, and of %v from one of a folder's model: %v", warm, plans[0].Stored, err)
	}
	c.Recipe.Model.KVHeads = 0
	if _, err := c.Plans(gpu.F32); err == nil || !strings.Contains(err.Error(), "num_key_value_heads is 0") {
		t.Errorf("plans of a model without heads: %v", err)
	}
}
