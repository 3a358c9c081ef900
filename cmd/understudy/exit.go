package main

import (
	"errors"

	"understudy/audit"
)

// The exit statuses. 1 and 2 are the gate's alone, so that a pipeline can tell
// a bad policy from a bad command line.
const (
	exitOK             = 0
	exitFailed         = 1 // the gate says FAIL
	exitInconclusive   = 2 // the gate says INCONCLUSIVE
	exitUsage          = 3
	exitInfrastructure = 4
)

// gateError carries a gate's decision out of a command that did its work.
type gateError struct {
	status int // exitFailed or exitInconclusive
	text   string
}

// Error is the decision in words.
func (e *gateError) Error() string { return e.text }

// exitStatus is the one table from errors to exit statuses.
func exitStatus(err error) int {
	if err == nil {
		return exitOK
	}
	if gate, ok := errors.AsType[*gateError](err); ok {
		return gate.status
	}
	switch audit.ErrorCode(err) {
	case audit.CodeInvalid, audit.CodeNotFound, audit.CodeConflict, audit.CodeLimit, audit.CodeUnprocessable:
		return exitUsage
	case audit.CodeInfrastructure, audit.CodeUnauthorized, audit.CodeForbidden, audit.CodeInternal, audit.CodeBusy:
		return exitInfrastructure
	}
	return exitInfrastructure
}
