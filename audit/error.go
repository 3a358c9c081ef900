package audit

import "errors"

// Code sorts the errors that cross to people; cmd maps it to an exit code and
// web to an HTTP status, each in one table.
type Code string

// The closed list of codes.
const (
	CodeInvalid        Code = "invalid"        // the caller's input is wrong
	CodeNotFound       Code = "not_found"      // the named thing does not exist
	CodeConflict       Code = "conflict"       // the state forbids it
	CodeUnauthorized   Code = "unauthorized"   // no or wrong credentials
	CodeForbidden      Code = "forbidden"      // credentials without the right
	CodeLimit          Code = "limit"          // too large or too many
	CodeUnprocessable  Code = "unprocessable"  // well formed, but what it says cannot be done; lists every fault
	CodeBusy           Code = "busy"           // too much at once or too fast: the same again later
	CodeInfrastructure Code = "infrastructure" // a server or a disk that we need does not answer
	CodeInternal       Code = "internal"       // our own fault; its text never reaches a user of the web
)

// Error is the one error type that crosses to people: what is wrong, and the
// remedy. Wrap it freely; ErrorCode and ErrorHint find it again.
type Error struct {
	Code    Code
	Message string // names the thing
	Hint    string // says what to do; may be empty
	Err     error  // the cause, if any
}

// Error is the message with its cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorCode finds the code of err; an error that is not ours is internal, nil has none.
func ErrorCode(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// ErrorHint finds the remedy that err carries, or "".
func ErrorHint(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Hint
	}
	return ""
}

// ErrorReport is how an error looks in the JSON of every API.
type ErrorReport struct {
	Error struct {
		Code    Code   `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	} `json:"error"`
}

// ReportError is err for people; of what is our own fault it says only that.
func ReportError(err error) ErrorReport {
	var r ErrorReport
	r.Error.Code, r.Error.Message, r.Error.Hint = ErrorCode(err), err.Error(), ErrorHint(err)
	if r.Error.Code == CodeInternal {
		r.Error.Message = "internal error"
	}
	return r
}
