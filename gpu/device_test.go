package gpu_test

import (
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
	"understudy/gpu/reference"
)

// devices are those that must keep a row's bits.
func devices(t *testing.T) []gpu.Device {
	t.Helper()
	all := []gpu.Device{reference.New(reference.Single)}
	for _, kernels := range host.Kernels() {
		d, err := host.New(host.Options{Kernels: kernels, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		all = append(all, d)
	}
	return all
}
