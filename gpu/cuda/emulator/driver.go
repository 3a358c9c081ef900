package emulator

import (
	"os"
	"testing"
)

// driverVariable, when it is "driver", makes tests open this machine's own driver, and so its card.
const driverVariable = "UNDERSTUDY_CUDA"

// OnCard says that tests open this machine's own driver instead of a stand-in.
func OnCard() bool { return os.Getenv(driverVariable) == "driver" }

// Folders are where a test's device looks for its driver first: the folder of a stand-in, or none when
// UNDERSTUDY_CUDA=driver, for this machine's own. There, tests of what a stand-in alone can do are skipped;
// a card that is lacking fails them.
func Folders(tb testing.TB, l Library) []string {
	tb.Helper()
	switch set := os.Getenv(driverVariable); {
	case set != "" && set != "driver":
		tb.Fatalf("%s=%s: it is driver, for this machine's own, or not set", driverVariable, set)
	case !OnCard():
		if !Supported() {
			tb.Skip("the CUDA device's emulator is for Linux")
		}
		folder, err := Build(tb.Context(), l)
		if err != nil {
			tb.Fatal(err)
		}
		return []string{folder}
	case l == Checked: // a card's threads have the order that they have
		tb.Skip("not on a card: compute-sanitizer checks this there, gpu/cuda/check.sh")
	}
	return nil
}

// Sources is UNDERSTUDY_CUDA_SOURCES: the whole path of a folder of kernels which tests have NVRTC compile for
// their device (cuda.Options.Sources).
func Sources() string { return os.Getenv("UNDERSTUDY_CUDA_SOURCES") }

// Only skips a test on a card, with the reason.
func Only(tb testing.TB, reason string) {
	tb.Helper()
	if OnCard() {
		tb.Skipf("not on a card: %s", reason)
	}
}
