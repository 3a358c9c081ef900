//go:build race

package stat_test

// The race detector makes simulations ten times slower and finds nothing in
// them: they run shortened under it.
const raceEnabled = true
