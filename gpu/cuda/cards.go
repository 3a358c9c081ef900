package cuda

import (
	"fmt"
	"unsafe"
)

// Card is one GPU as the driver describes it.
type Card struct {
	Name         string
	Memory       int64
	Major, Minor int // compute capability
	Driver       int // 12040 is CUDA 12.4
	Processors   int // multiprocessors
	handle       int32
}

// Oldest that the kernels are for.
const (
	oldestDriver  = 12000 // cuBLASLt as it is called here; the PTX is 7.1
	oldestCompute = 80    // mma.sync on bf16
)

// Cards lists the GPUs of this machine. It gives ErrNoDevice, wrapped, where there is no
// driver or no card.
func Cards(libraries ...string) ([]Card, error) {
	d, err := openDriver(libraries)
	if err != nil {
		return nil, err
	}
	return d.cards()
}

// FreeMemory is what nobody has taken of a card's memory at the moment.
func FreeMemory(number int, libraries ...string) (int64, error) {
	d, err := openDriver(libraries)
	if err != nil {
		return 0, err
	}
	t := startThread(d)
	defer t.stop()
	var free, total uintptr
	err = t.do(func() error {
		card, err := d.card(number)
		if err != nil {
			return err
		}
		defer t.leave()
		if err := t.enter(card); err != nil {
			return err
		}
		return d.call("ask for free memory", d.memInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	})
	return int64(free), err
}

// card is the one of this number, if there is one.
func (d *driver) card(number int) (Card, error) {
	cards, err := d.cards()
	switch {
	case err != nil:
		return Card{}, err
	case len(cards) == 0:
		return Card{}, fmt.Errorf("%w: the driver finds no card", ErrNoDevice)
	case number < 0 || number >= len(cards):
		return Card{}, fmt.Errorf("card %d: this machine has %d, counted from 0", number, len(cards))
	}
	return cards[number], nil
}

// cards may be called on any thread.
func (d *driver) cards() ([]Card, error) {
	if err := d.call("initialise the driver", d.init, 0); err != nil {
		return nil, absent(err)
	}
	var version, count int32
	if err := d.call("ask for the driver's version", d.driverVersion, uintptr(unsafe.Pointer(&version))); err != nil {
		return nil, err
	}
	if err := d.call("count the cards", d.deviceCount, uintptr(unsafe.Pointer(&count))); err != nil {
		return nil, absent(err)
	}
	cards := make([]Card, count)
	for i := range cards {
		if err := d.describe(&cards[i], i); err != nil {
			return nil, err
		}
		cards[i].Driver = int(version)
	}
	return cards, nil
}

// absent makes ErrNoDevice of the results that say that there is no card: an ordinary answer.
func absent(err error) error {
	if isCode(err, noDevice) || isCode(err, stubLibrary) {
		return fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	return err
}

func (d *driver) describe(c *Card, i int) error {
	doing := fmt.Sprintf("ask for card %d", i)
	if err := d.call(doing, d.deviceGet, uintptr(unsafe.Pointer(&c.handle)), uintptr(i)); err != nil {
		return err
	}
	var name [128]byte
	if err := d.call(doing, d.deviceName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)-1), uintptr(c.handle)); err != nil {
		return err
	}
	c.Name = text(&name[0])
	var bytes uintptr
	if err := d.call(doing, d.deviceMemory, uintptr(unsafe.Pointer(&bytes)), uintptr(c.handle)); err != nil {
		return err
	}
	c.Memory = int64(bytes)
	// MULTIPROCESSOR_COUNT, COMPUTE_CAPABILITY_MAJOR, _MINOR
	for attribute, to := range map[uintptr]*int{16: &c.Processors, 75: &c.Major, 76: &c.Minor} {
		var value int32
		if err := d.call(doing, d.attr, uintptr(unsafe.Pointer(&value)), attribute, uintptr(c.handle)); err != nil {
			return err
		}
		*to = int(value)
	}
	return nil
}

// Usable says why a card cannot be used.
func (c Card) Usable() error {
	if c.Driver < oldestDriver {
		return fmt.Errorf("the driver is for CUDA %d.%d: the kernels need 12.0 or later, update the driver",
			c.Driver/1000, c.Driver%1000/10)
	}
	if 10*c.Major+c.Minor < oldestCompute {
		return fmt.Errorf("%s has compute capability %d.%d: the kernels need 8.0 or later (A100, H100, H200, RTX 30 and newer); use the host device",
			c.Name, c.Major, c.Minor)
	}
	return nil
}
