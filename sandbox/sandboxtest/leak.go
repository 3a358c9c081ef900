package sandboxtest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leftover is how long a goroutine that was told to end is waited for: it needs a
// processor for that, and a busy machine has none to spare at once.
const leftover = 2 * time.Minute

// Main runs a package's tests, for its TestMain: they pass when they leave no
// goroutine behind.
func Main(m *testing.M) {
	status := m.Run()
	if status == 0 {
		if err := Leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// Leaks returns an error that names the goroutines which do not end.
func Leaks(options ...goleak.Option) error {
	for deadline := time.Now().Add(leftover); ; {
		if err := goleak.Find(options...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
