package main_test

import (
	"testing"

	"understudy/gpu/cuda/emulator"
)

// emulatedCard is the folder of a stand-in driver with one card, for LD_LIBRARY_PATH.
func emulatedCard(t *testing.T) string {
	t.Helper()
	if !emulator.Supported() {
		t.Skip("the CUDA device's emulator is for Linux")
	}
	folder, err := emulator.Build(t.Context(), emulator.Ascending)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}
