package audit

import "errors"

// Fault sorts an error by what to do about the work that met it.
type Fault string

// The faults.
const (
	FaultTransient    Fault = "transient"    // may pass: try again, a finite number of times
	FaultPermanent    Fault = "permanent"    // will not pass: give the job up and keep the reason
	FaultUndetermined Fault = "undetermined" // no answer can be had: record that, never count it
)

// FaultError marks an error with the fault that decides about a retry.
type FaultError struct {
	Fault Fault
	Err   error
}

// Error is the text of the marked error.
func (e *FaultError) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e *FaultError) Unwrap() error { return e.Err }

// FaultOf finds the fault of err. An error that nobody marked is permanent when
// its code says that the input is at fault, and transient otherwise: a server
// that is down must not cost a job.
func FaultOf(err error) Fault {
	if e, ok := errors.AsType[*FaultError](err); ok {
		return e.Fault
	}
	switch ErrorCode(err) {
	case CodeInvalid, CodeNotFound, CodeConflict, CodeForbidden, CodeLimit, CodeUnprocessable:
		return FaultPermanent
	case CodeUnauthorized, CodeInfrastructure, CodeInternal, CodeBusy:
		return FaultTransient
	}
	return FaultTransient
}
