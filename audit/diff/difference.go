package diff

import "encoding/json"

// Kind says how the two sides of a Difference differ.
type Kind string

// The closed list of kinds.
const (
	Changed      Kind = "changed"        // both present, same JSON type, other value
	TypeChanged  Kind = "type_changed"   // both present, other JSON type
	Missing      Kind = "missing"        // the real answer has it, the rehearsal omits it
	Extra        Kind = "extra"          // the rehearsal invents it
	AbsentNull   Kind = "absent_vs_null" // one side is absent, the other is null
	Reordered    Kind = "reordered"      // same multiset, other order
	Inconsistent Kind = "inconsistent"   // an id that breaks the episode's bijection
)

// Difference is one typed disagreement between a rehearsed and a real value.
type Difference struct {
	Pattern   string          `json:"pattern"` // JSON Pointer with * for indices and dynamic keys: what to count by
	Pointer   string          `json:"pointer"` // JSON Pointer of this instance (of the real side where both have one)
	Kind      Kind            `json:"kind"`
	Rehearsed json.RawMessage `json:"rehearsed,omitempty"` // nil when absent
	Real      json.RawMessage `json:"real,omitempty"`      // nil when absent
	Class     Class           `json:"class"`               // class of the path rule that judged it
	Weight    float64         `json:"weight"`              // share of the leaf weight that this difference costs
	Cosmetic  bool            `json:"cosmetic,omitempty"`  // equated by policy: S1, never S0
}

// Class is a path rule's way of matching two leaves (design.md 4, path policy).
type Class string

// The closed list of path classes.
const (
	Exact     Class = "exact"
	Echo      Class = "key" // echo of an argument or of an existing id
	Enum      Class = "enum"
	Number    Class = "number"
	Timestamp Class = "timestamp"
	ID        Class = "id" // surrogate id under the episode's bijection
	Text      Class = "text"
	Volatile  Class = "volatile"
)
