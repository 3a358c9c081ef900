//go:build race

package generate_test

// raceEnabled: these tests are single-threaded work, which the race detector
// slows tenfold; they try less under it.
const raceEnabled = true
