//go:build race

package starlark_test

const raceEnabled = true
