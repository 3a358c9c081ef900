package half_test

import (
	"math"
	"testing"

	"understudy/gpu/half"
)

// Every half comes back as it was, and what lies between two neighbours goes to the
// nearer one, ties to the even one.
func TestRoundTripAndRounding(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name string
		from func(uint16) float32
		to   func(float32) uint16
		inf  uint16
	}{
		{"F16", half.FromF16, half.ToF16, 0x7c00},
		{"BF16", half.FromBF16, half.ToBF16, 0x7f80},
	} {
		for h := range uint16(0x7fff) {
			x := kind.from(h)
			if h > kind.inf {
				if y := kind.from(kind.to(x)); x == x || y == y {
					t.Fatalf("%s: NaN %#x became %v", kind.name, h, y)
				}
				continue
			}
			if got, minus := kind.to(x), kind.to(-x); got != h || minus != h|0x8000 {
				t.Fatalf("%s: %#x became %#x, and below zero %#x", kind.name, h, got, minus)
			}
			if h+1 >= kind.inf {
				continue // its neighbour is no number
			}
			next := kind.from(h + 1)
			middle := x + (next-x)/2 // exact: there are more bits
			even := h + h&1
			for _, c := range []struct {
				x    float32
				want uint16
			}{{math.Nextafter32(middle, 0), h}, {middle, even}, {math.Nextafter32(middle, next), h + 1}} {
				if got := kind.to(c.x); got != c.want {
					t.Fatalf("%s: %v became %#x, not %#x", kind.name, c.x, got, c.want)
				}
			}
		}
	}
	for x, want := range map[float32]uint16{65519.996: 0x7bff, 65520: 0x7c00, -1e30: 0xfc00} {
		if got := half.ToF16(x); got != want {
			t.Errorf("F16: %v became %#x, not %#x", x, got, want)
		}
	}
}
