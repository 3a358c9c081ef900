package audit

// Class is the coarse outcome of an answer.
type Class string

// The outcome classes.
const (
	OK      Class = "ok"
	OKEmpty Class = "ok_empty"
	Failed  Class = "error"
)

// Family is the closed list of error families (design.md 1). Families are
// compared apart from error texts.
type Family string

// The error families.
const (
	MalformedCall  Family = "malformed_call"
	UnknownTool    Family = "unknown_tool"
	SchemaInvalid  Family = "schema_invalid"
	Authentication Family = "authentication"
	Authorization  Family = "authorization"
	NotFound       Family = "not_found"
	Conflict       Family = "conflict"
	Precondition   Family = "precondition"
	Limit          Family = "limit"
	Transient      Family = "transient"
	Internal       Family = "internal"
	Unparseable    Family = "unparseable"
)

// Families lists every error family in the order of the confusion matrix.
func Families() []Family {
	return []Family{
		MalformedCall, UnknownTool, SchemaInvalid, Authentication, Authorization, NotFound,
		Conflict, Precondition, Limit, Transient, Internal, Unparseable,
	}
}

// Outcome is ok, ok_empty, or error with a family.
type Outcome struct {
	Class  Class  `json:"class"`
	Family Family `json:"family,omitempty"` // set exactly when Class is error
}
