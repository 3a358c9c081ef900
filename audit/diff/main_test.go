package diff_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain fixes the seed of property tests, so that a run can be repeated;
// -rapid.seed draws others.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}
