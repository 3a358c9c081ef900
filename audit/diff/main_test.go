package diff_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain fixes the seed of property tests, so that a run can be repeated;
// -rapid.seed and -rapid.checks draw others, and more.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.checks": "300"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
