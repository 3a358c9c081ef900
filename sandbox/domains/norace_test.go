//go:build !race

package domains_test

const raceEnabled = false
