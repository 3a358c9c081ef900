package gpu_test

import (
	"math"
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

// exactDevices are devices, and one whose activations are BF16: it, too, keeps a row's bits, but is as far from
// float64 as they are rounded.
func exactDevices(t *testing.T) []gpu.Device {
	t.Helper()
	all := devices(t)
	if emulator.Supported() {
		all = append(all, emulated(t, cuda.Options{Products: gpu.BF16}))
	}
	return all
}

// nameOf tells devices of a test apart.
func nameOf(d gpu.Device) string {
	if gpu.ActivationType(d) == gpu.BF16 {
		return d.Name() + ", bfloat16"
	}
	return d.Name()
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

// distance is how far b is from a, as a part of a: both as vectors.
func distance(a, b []float32) float64 {
	apart, length := 0.0, 0.0
	for i, x := range a {
		d := float64(b[i]) - float64(x)
		apart, length = apart+d*d, length+float64(x)*float64(x)
	}
	return math.Sqrt(apart / length)
}
