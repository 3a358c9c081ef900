package diff

import "encoding/json"

// Patch is the canonical list of cell changes between two JSON values: RFC 6902
// add, remove and replace operations, each with the old value, so that a patch
// can be inverted. It is a pure function of the two values, never of the order
// in which they were written: two effects are equal exactly when their patches
// are equal. A nil Patch means "not known"; an empty one means "known to be none".
type Patch []Op

// Op is one changed cell. Value and Old hold compact JSON text; Value is nil for
// a remove, Old is nil for an add.
type Op struct {
	Op    string          `json:"op"`   // add, remove or replace
	Path  string          `json:"path"` // RFC 6901 JSON Pointer
	Value json.RawMessage `json:"value,omitempty"`
	Old   json.RawMessage `json:"old,omitempty"`
}
