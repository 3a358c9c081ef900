package gpu_test

import (
	"understudy/gpu"
	"understudy/gpu/reference"
)

// devices are those that must keep a row's bits.
func devices() []gpu.Device {
	return []gpu.Device{reference.New(reference.Single)}
}
