package starlark

import (
	"encoding/json"
	"errors"

	"understudy/audit"
)

// childArgument is the hidden first argument that makes the binary a child. The
// second is its memory limit in bytes.
const childArgument = "sandbox-child"

// request is one message to a child; Op says which fields count.
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

// response is one message from a child that is no observation. Body is what the operation returns.
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

// Error is the message; ask turns it into the error that crosses to people.
func (e *wireError) Error() string { return e.Message }

func encodeRequest(req request) ([]byte, error) {
	switch req.Op {
	case opCall:
		return appendCall(nil, tagCall, req.Session, req.Call), nil
	case opDryRun:
		return appendCall(nil, tagDryRun, req.Session, req.Call), nil
	}
	return json.Marshal(req)
}

func decodeRequest(message []byte) (req request, err error) {
	if len(message) == 0 {
		return req, errFrame
	}
	if message[0] != '{' {
		return readCall(message)
	}
	err = json.Unmarshal(message, &req)
	return req, err
}

func encodeResponse(body any, err error) ([]byte, error) {
	if err != nil {
		return json.Marshal(response{Error: toWire(err)})
	}
	if obs, ok := body.(audit.Observation); ok {
		return appendObservation(nil, &obs), nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return json.Marshal(response{Error: toWire(err)})
	}
	return json.Marshal(response{Body: text})
}

// decodeResponse reads an answer into body; an error that the child reports is a
// *wireError, every other one means that the child is broken.
func decodeResponse(message []byte, body any) error {
	if obs, ok := body.(*audit.Observation); ok && len(message) > 0 && message[0] == tagObservation {
		return readObservation(message, obs)
	}
	var resp response
	if err := json.Unmarshal(message, &resp); err != nil {
		return err
	}
	if resp.Error != nil {
		return resp.Error
	}
	if body == nil {
		return nil
	}
	return json.Unmarshal(resp.Body, body)
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
