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

// Label is the outcome's name in the confusion matrix: ok, ok_empty or the family.
func (o Outcome) Label() string {
	if o.Class == Failed {
		return string(o.Family)
	}
	return string(o.Class)
}

// String is ok, ok_empty or error/family.
func (o Outcome) String() string {
	if o.Class == Failed {
		return string(o.Class) + "/" + string(o.Family)
	}
	return string(o.Class)
}

// IsError reports whether the answer was an error.
func (o Outcome) IsError() bool { return o.Class == Failed }

// OutcomeLabels lists every label in the order of the confusion matrix.
func OutcomeLabels() []string {
	labels := []string{string(OK), string(OKEmpty)}
	for _, f := range Families() {
		labels = append(labels, string(f))
	}
	return labels
}
