// Package leaktest finds goroutines that tests leave behind, and gives those that
// were told to end the time to do so: they need a processor for it, and a busy
// machine has none to spare at once.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is for the slowest machine: nothing that ends waits for it.
const patience = 2 * time.Minute

// Main runs a package's tests, for its TestMain: they pass when they leave no
// goroutine behind.
func Main(m *testing.M, options ...goleak.Option) {
	status := m.Run()
	if status == 0 {
		if err := Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

// Find returns an error that names the goroutines which do not end.
func Find(options ...goleak.Option) error {
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(options...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
