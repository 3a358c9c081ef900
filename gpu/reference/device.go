// Package reference is the oracle of the engine: every operation of
// [gpu.Device] in plain Go, each sum in float64 and in the order of its formula.
// It is written to be obviously right and is slow; gpu/host and gpu/cuda are
// tested against it.
package reference

import (
	"encoding/binary"
	"fmt"
	"math"

	"understudy/gpu"
)

// Precision is what a stored float keeps of the float64 it was computed as.
type Precision int

const (
	// Single rounds to float32 whenever an element is stored, as devices do.
	Single Precision = iota
	// Double keeps float64, for finite differences.
	Double
)

// Device computes in float64. Make it with New.
type Device struct {
	precision Precision
}

var _ gpu.Device = (*Device)(nil)

// New makes a device. It is always in Exact mode.
func New(p Precision) *Device { return &Device{precision: p} }

// Name says which precision it stores.
func (d *Device) Name() string {
	if d.precision == Double {
		return "reference float64"
	}
	return "reference float32"
}

// Mode is Exact: rows are computed one by one.
func (d *Device) Mode() gpu.Mode { return gpu.Exact }

// memory holds floats of any type as float64, indices as int32.
type memory struct {
	floats []float64
	ints   []int32
}

// Bytes is what the allocation takes here.
func (m *memory) Bytes() int64 { return int64(len(m.floats))*8 + int64(len(m.ints))*4 }

// Floats is the elements of b themselves, for tests that look below float32.
func (d *Device) Floats(b gpu.Buffer) []float64 { return floats(b) }

func floats(b gpu.Buffer) []float64 {
	if b.None() || b.Type == gpu.I32 {
		return nil
	}
	return b.Memory.(*memory).floats[b.Off : b.Off+b.Len]
}

func ints(b gpu.Buffer) []int32 {
	if b.None() || b.Type != gpu.I32 {
		return nil
	}
	return b.Memory.(*memory).ints[b.Off : b.Off+b.Len]
}

// stored is v as the device keeps it.
func (d *Device) stored(v float64) float64 {
	if d.precision == Double {
		return v
	}
	return float64(float32(v))
}

// Alloc gives n zeros.
func (d *Device) Alloc(t gpu.DType, n int) (gpu.Buffer, error) {
	if n < 0 {
		return gpu.Buffer{}, fmt.Errorf("allocate %d elements", n)
	}
	m := &memory{}
	if t == gpu.I32 {
		m.ints = make([]int32, n)
	} else {
		m.floats = make([]float64, n)
	}
	return gpu.Buffer{Memory: m, Type: t, Len: n}, nil
}

// Map copies data, widened.
func (d *Device) Map(t gpu.DType, data []byte) (gpu.Buffer, error) {
	if len(data)%t.Size() != 0 {
		return gpu.Buffer{}, fmt.Errorf("map %d bytes as elements of %d", len(data), t.Size())
	}
	b, err := d.Alloc(t, len(data)/t.Size())
	if err != nil {
		return b, err
	}
	for i := range b.Len {
		at := data[i*t.Size():]
		switch t {
		case gpu.I32:
			ints(b)[i] = int32(binary.LittleEndian.Uint32(at))
		case gpu.F32:
			floats(b)[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(at)))
		case gpu.BF16:
			floats(b)[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(at)) << 16))
		case gpu.F16:
			floats(b)[i] = halfToFloat(binary.LittleEndian.Uint16(at))
		}
	}
	return b, nil
}

// halfToFloat reads an IEEE 754 binary16.
func halfToFloat(h uint16) float64 {
	sign := 1.0
	if h>>15 == 1 {
		sign = -1
	}
	exponent, fraction := int(h>>10&31), float64(h&1023)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// Free leaves it to the garbage collector.
func (d *Device) Free(gpu.Buffer) {}

// NewWeight keeps nothing besides b.
func (d *Device) NewWeight(b gpu.Buffer, n, k int) gpu.Weight {
	if b.Len != n*k {
		panic("reference: a weight's buffer has another size than its shape")
	}
	return gpu.Weight{Buffer: b, N: n, K: k}
}

// Changed does nothing: no other form is kept.
func (d *Device) Changed(gpu.Weight) {}

// Upload copies src.
func (d *Device) Upload(dst gpu.Buffer, src []float32) {
	to := floats(dst)[:len(src)]
	for i, v := range src {
		to[i] = float64(v)
	}
}

// UploadInts copies src.
func (d *Device) UploadInts(dst gpu.Buffer, src []int32) { copy(ints(dst)[:len(src)], src) }

// Download rounds to float32.
func (d *Device) Download(dst []float32, src gpu.Buffer) error {
	from := floats(src)[:len(dst)]
	for i, v := range from {
		dst[i] = float32(v)
	}
	return nil
}

// Sync has nothing to wait for.
func (d *Device) Sync() error { return nil }
