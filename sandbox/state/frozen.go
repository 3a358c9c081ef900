package state

import (
	"fmt"

	"go.starlark.net/starlark"
)

// Frozen nodes are Starlark values so that they can stand where a scalar can;
// Starlark code meets them only through live handles.

var (
	_ starlark.Value = (*Object)(nil)
	_ starlark.Value = (*Array)(nil)
)

// String is the object as JSON.
func (o *Object) String() string { return string(AppendJSON(nil, o)) }

// Type names the frozen node in error messages.
func (o *Object) Type() string { return "frozen map" }

// Freeze does nothing: the object is frozen.
func (o *Object) Freeze() {}

// Truth reports whether the object has a key.
func (o *Object) Truth() starlark.Bool { return o.size > 0 }

// Hash refuses: objects are not keys.
func (o *Object) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: %s", o.Type()) }

// String is the array as JSON.
func (a *Array) String() string { return string(AppendJSON(nil, a)) }

// Type names the frozen node in error messages.
func (a *Array) Type() string { return "frozen list" }

// Freeze does nothing: the array is frozen.
func (a *Array) Freeze() {}

// Truth reports whether the array has an element.
func (a *Array) Truth() starlark.Bool { return len(a.vals) > 0 }

// Hash refuses: arrays are not keys.
func (a *Array) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: %s", a.Type()) }
