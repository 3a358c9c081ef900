package main_test

import (
	"testing"

	main "understudy/cmd/understudy"
	"understudy/gpu"
	"understudy/gpu/cuda"
)

// A plan is compared with what is free of a card, not with what the card has: another process
// may hold the rest.
func TestMemoryOfACard(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", emulatedCard(t))
	d, err := cuda.New(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Alloc(gpu.F32, 32<<20); err != nil {
		t.Fatal(err)
	}
	const total, taken = 1 << 40, 128 << 20 // of the emulator's card
	if bytes, text := main.DeviceMemory("cuda"); bytes != total-taken || text != "cuda has 1023.9 GiB free" {
		t.Errorf("%d, %q, want %d", bytes, text, total-taken)
	}
	const want = "what cuda:7 has is not known: card 7: this machine has 1, counted from 0"
	if bytes, text := main.DeviceMemory("cuda:7"); bytes != 0 || text != want {
		t.Errorf("%d, %q, want 0, %q", bytes, text, want)
	}
}
