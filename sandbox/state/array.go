package state

import "go.starlark.net/starlark"

// Array is a frozen JSON array. It is safe for concurrent use.
type Array struct {
	vals   []starlark.Value
	digest seal
}

// NewArray builds an array from frozen values, which it keeps.
func NewArray(vals []starlark.Value) *Array { return &Array{vals: vals} }

// Len is the number of elements.
func (a *Array) Len() int { return len(a.vals) }

// At returns element i.
func (a *Array) At(i int) starlark.Value { return a.vals[i] }
