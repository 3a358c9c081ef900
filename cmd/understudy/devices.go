package main

import (
	"understudy/gpu"
	"understudy/gpu/host"
)

// devices are those of the built-in engine that one command works on: each parameter
// set has one of its own, and all are closed when nothing works on them any more.
type devices struct {
	threads int // of each; 0 = all processors
	made    []*host.Device
}

// next makes one more; it is what train.Runtime asks for.
func (d *devices) next() (gpu.Device, error) {
	device, err := host.New(host.Options{Threads: d.threads})
	if err != nil {
		return nil, err
	}
	d.made = append(d.made, device)
	return device, nil
}

func (d *devices) close() {
	for _, device := range d.made {
		device.Close()
	}
}
