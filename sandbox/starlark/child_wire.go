package starlark

import (
	"encoding/json"
	"errors"

	"understudy/audit"
)

// childArgument is the hidden first argument that makes the binary a child. The
// second is its memory limit in bytes.
const childArgument = "sandbox-child"

// request is one line to a child; Op says which fields count.
type request struct {
	Op      string            `json:"op"`
	Session int               `json:"session,omitempty"`
	Call    *audit.Call       `json:"call,omitempty"`
	Start   *audit.Start      `json:"start,omitempty"`
	Name    string            `json:"name,omitempty"` // of a snapshot, task or pointer
	Seed    uint64            `json:"seed,omitempty"`
	N       int               `json:"n,omitempty"`
	Files   map[string][]byte `json:"files,omitempty"`
	Options *Options          `json:"options,omitempty"`
}

// The operations of a child.
const (
	opLoad       = "load"
	opTasks      = "tasks"
	opOpen       = "open"
	opClose      = "close"
	opCall       = "call"
	opDryRun     = "dry_run"
	opSnapshot   = "snapshot"
	opRestore    = "restore"
	opDrop       = "drop"
	opFork       = "fork"
	opDigest     = "digest"
	opState      = "state"
	opProbes     = "probes"
	opCheck      = "check"
	opViolations = "violations"
)

// response is one line from a child. Body is what the operation returns.
type response struct {
	Body  json.RawMessage `json:"body,omitempty"`
	Error *wireError      `json:"error,omitempty"`
}

// wireError carries an error across the pipe.
type wireError struct {
	Code    audit.Code `json:"code"`
	Message string     `json:"message"`
	Hint    string     `json:"hint,omitempty"`
}

func toWire(err error) *wireError {
	return &wireError{Code: audit.ErrorCode(err), Message: err.Error(), Hint: audit.ErrorHint(err)}
}

func (e *wireError) err() error {
	if e.Code == audit.CodeInternal {
		return errors.New(e.Message)
	}
	return &audit.Error{Code: e.Code, Message: e.Message, Hint: e.Hint}
}

// loaded is the body of opLoad.
type loaded struct {
	Info  audit.EnvironmentInfo `json:"info"`
	Tools []audit.Tool          `json:"tools"`
}
