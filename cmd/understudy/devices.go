package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/host"
)

// computer is a device that somebody closes.
type computer interface {
	gpu.Device
	Close()
}

// deviceFlags say where the built-in engine computes.
type deviceFlags struct {
	device  string
	threads int
}

func (d *deviceFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&d.device, "device", "cpu", "where the built-in engine computes: cpu, cuda, cuda:N for card N; cuda:N:f32 computes in float32 instead of bfloat16")
	fs.IntVar(&d.threads, "threads", 0, "processors of the built-in engine; 0 = all")
}

// open makes the device.
func (d *deviceFlags) open(mode gpu.Mode) (computer, error) {
	o, err := d.card()
	if err != nil {
		return nil, err
	}
	if o == nil {
		device, err := host.New(host.Options{Mode: mode, Threads: d.threads})
		if err != nil {
			return nil, &audit.Error{Code: audit.CodeInvalid, Message: "open the device", Hint: "understudy help serve", Err: err}
		}
		return device, nil
	}
	o.Mode = mode
	o.Warn = func(text string) { fmt.Fprintf(os.Stderr, "%s: %s\n", d.device, text) }
	device, err := cuda.New(*o)
	if err != nil {
		return nil, d.unusable(err)
	}
	return device, nil
}

// card is what --device says of a card; nil on the CPU.
func (d *deviceFlags) card() (*cuda.Options, error) {
	if d.device == "" || d.device == "cpu" {
		return nil, nil //nolint:nilnil // no card is no failure
	}
	o, err := cudaOptions(d.device)
	return &o, err
}

// unusable says that the card of --device cannot be had.
func (d *deviceFlags) unusable(err error) error {
	return &audit.Error{Code: audit.CodeInvalid, Message: "--device " + d.device, Hint: "understudy version --devices lists what there is; --device cpu needs no card", Err: err}
}

// cardMemory is a card that the kernels can use, and what nobody has taken of its memory.
func (d *deviceFlags) cardMemory(o cuda.Options) (card cuda.Card, free int64, err error) {
	if free, err = cuda.FreeMemory(o.Number); err != nil {
		return card, 0, d.unusable(err)
	}
	cards, err := cuda.Cards()
	if err == nil {
		card = cards[o.Number]
		err = card.Usable()
	}
	if err != nil {
		return card, 0, d.unusable(err)
	}
	return card, free, nil
}

// memory is what the device can have, and how to say that: of a machine what it has, of a card what
// nobody has taken of it; 0 where that is not known.
func (d *deviceFlags) memory() (bytes int64, text string) {
	o, err := cudaOptions(d.device)
	if err != nil {
		return host.Memory(), fmt.Sprintf("this machine has %s GiB", gibibytes(host.Memory()))
	}
	free, err := cuda.FreeMemory(o.Number)
	if err != nil {
		return 0, fmt.Sprintf("what %s has is not known: %v", d.device, err)
	}
	return free, fmt.Sprintf("%s has %s GiB free", d.device, gibibytes(free))
}

// cudaOptions reads cuda, cuda:N or cuda:N:f32.
func cudaOptions(text string) (cuda.Options, error) {
	o := cuda.Options{Products: gpu.BF16}
	parts := strings.Split(text, ":")
	wrong := usageError("--device "+text, "write cpu, cuda, cuda:N or cuda:N:f32; understudy version --devices lists what there is")
	if parts[0] != "cuda" || len(parts) > 3 {
		return o, wrong
	}
	if len(parts) > 1 {
		n, err := strconv.Atoi(parts[1])
		if err != nil || n < 0 {
			return o, wrong
		}
		o.Number = n
	}
	if len(parts) > 2 {
		if parts[2] != "f32" {
			return o, wrong
		}
		o.Products = gpu.F32
	}
	return o, nil
}

// devices are those of the built-in engine that one command works on: each parameter
// set has one of its own, and all are closed when nothing works on them any more.
type devices struct {
	deviceFlags
	made []computer
}

// next makes one more; it is what train.Runtime asks for.
func (d *devices) next(mode gpu.Mode) (gpu.Device, error) {
	device, err := d.open(mode)
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

// listDevices prints what computes on this machine. No GPU is an ordinary answer.
func listDevices(out io.Writer) {
	fmt.Fprintf(out, "cpu: %s, %d threads, kernels %s\n", runtime.GOARCH, runtime.GOMAXPROCS(0), strings.Join(host.Kernels(), ", "))
	cards, err := cuda.Cards()
	switch {
	case errors.Is(err, cuda.ErrNoDevice) || err == nil && len(cards) == 0:
		fmt.Fprintln(out, "cuda: no NVIDIA GPU, or no driver for one")
	case err != nil:
		fmt.Fprintf(out, "cuda: %v\n", err)
	}
	for i, c := range cards {
		fmt.Fprintf(out, "cuda:%d: %s, %s GiB, compute capability %d.%d, driver for CUDA %d.%d", i, c.Name, gibibytes(c.Memory), c.Major, c.Minor, c.Driver/1000, c.Driver%1000/10)
		if err := c.Usable(); err != nil {
			fmt.Fprintf(out, "; not usable: %v", err)
		}
		fmt.Fprintln(out)
	}
}
