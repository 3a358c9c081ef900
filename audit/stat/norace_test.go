//go:build !race

package stat_test

const raceEnabled = false
