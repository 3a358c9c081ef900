package diff

import "fmt"

// Limits bounds what Decode accepts. Beyond a limit the text gets a class of
// its own (DecodeClass.Oversize), never a crash. The zero value of a field means
// the default.
type Limits struct {
	Bytes    int // of raw text
	Depth    int // of nested containers; a scalar has depth 0
	Leaves   int // scalars and empty containers
	Exponent int // of a number as written, absolute
}

// DefaultLimits is the one set of limits of the whole program (design.md 4).
func DefaultLimits() Limits {
	return Limits{Bytes: 1 << 20, Depth: 200, Leaves: 50_000, Exponent: 400}
}

// withDefaults fills the fields that are not set.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.Bytes <= 0 {
		l.Bytes = d.Bytes
	}
	if l.Depth <= 0 {
		l.Depth = d.Depth
	}
	if l.Leaves <= 0 {
		l.Leaves = d.Leaves
	}
	if l.Exponent <= 0 {
		l.Exponent = d.Exponent
	}
	return l
}

// DecodeClass says why a text is not an acceptable JSON value.
type DecodeClass string

// The closed list of decode classes.
const (
	ClassEmpty            DecodeClass = "empty"             // nothing but white space
	ClassSyntax           DecodeClass = "syntax"            // not JSON
	ClassTruncated        DecodeClass = "truncated"         // JSON that ends in the middle
	ClassTrailing         DecodeClass = "trailing_data"     // something follows the value
	ClassEncoding         DecodeClass = "encoding"          // not UTF-8
	ClassNonFinite        DecodeClass = "non_finite"        // NaN or Infinity: well formed but for these
	ClassOversizeBytes    DecodeClass = "oversize_bytes"    // more than Limits.Bytes
	ClassOversizeDepth    DecodeClass = "oversize_depth"    // deeper than Limits.Depth
	ClassOversizeLeaves   DecodeClass = "oversize_leaves"   // more than Limits.Leaves
	ClassOversizeExponent DecodeClass = "oversize_exponent" // a number beyond Limits.Exponent
)

// Oversize reports whether the text went beyond a limit, as opposed to being
// unparseable.
func (c DecodeClass) Oversize() bool {
	switch c {
	case ClassOversizeBytes, ClassOversizeDepth, ClassOversizeLeaves, ClassOversizeExponent:
		return true
	case ClassEmpty, ClassSyntax, ClassTruncated, ClassTrailing, ClassEncoding, ClassNonFinite:
		return false
	}
	return false
}

// DecodeError is the one error of Decode and Normalise.
type DecodeError struct {
	Class   DecodeClass
	Offset  int // byte offset into the raw text
	Message string
}

// Error names the class, the place and what was expected there.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("json %s at byte %d: %s", e.Class, e.Offset, e.Message)
}
