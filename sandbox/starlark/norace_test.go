//go:build !race

package starlark_test

const raceEnabled = false
