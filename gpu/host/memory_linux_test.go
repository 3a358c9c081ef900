package host_test

import (
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
)

// What the machine does not have is refused: Go would end the program.
func TestMemoryOfTheMachine(t *testing.T) {
	d, err := host.New(host.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, n := range []int{1 << 44, 1 << 60} {
		if _, err := d.Alloc(gpu.F32, n); err == nil || !strings.Contains(err.Error(), "are free") {
			t.Errorf("%d elements: %v", n, err)
		}
	}
}
