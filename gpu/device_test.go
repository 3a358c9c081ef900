package gpu_test

import (
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
	"understudy/gpu/host"
	"understudy/gpu/reference"
)

// devices are those that must keep a row's bits.
func devices(t *testing.T) []gpu.Device {
	t.Helper()
	all := []gpu.Device{reference.New(reference.Single)}
	for _, kernels := range host.Kernels() {
		all = append(all, newHost(t, host.Options{Kernels: kernels, Threads: 2}))
	}
	if emulator.Supported() {
		all = append(all, emulated(t, cuda.Options{}))
	}
	return all
}

// emulated is the CUDA device on its emulator, or on this machine's card (UNDERSTUDY_CUDA=driver).
func emulated(t *testing.T, o cuda.Options) *cuda.Device {
	t.Helper()
	o.Libraries, o.Sources = emulator.Folders(t, emulator.Ascending), emulator.Sources()
	d, err := cuda.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}
