package mcp

import (
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"understudy/audit"
)

// The extension by which a server shows its state. Its methods are JSON-RPC
// methods beside MCP's own; a call of a tool carries the session's handle in
// _meta, and its result carries what changed. Where the server holds only one
// session, the handle may be left out.
const (
	extension = "understudy/sandbox" // in capabilities.extensions, with extensionInfo

	methodOpen     = "sandbox/open"
	methodClose    = "sandbox/close"
	methodSnapshot = "sandbox/snapshot"
	methodRestore  = "sandbox/restore"
	methodDrop     = "sandbox/drop"
	methodFork     = "sandbox/fork"
	methodState    = "sandbox/state"
	methodCheck    = "sandbox/check"
	methodTasks    = "sandbox/tasks"

	metaSession = "understudy/session"
	metaDelta   = "understudy/delta" // RFC 6902 with the replaced values in "old"
	metaBefore  = "understudy/before"
	metaAfter   = "understudy/after"
	metaStatus  = "understudy/status"
	metaError   = "understudy/error"
)

// extensionInfo is what a server with the extension says of itself.
type extensionInfo struct {
	Version       int                `json:"version"`
	Name          string             `json:"name"`
	Label         string             `json:"label"` // of the version, for people
	Digest        audit.Digest       `json:"digest"`
	Capabilities  []audit.Capability `json:"capabilities"`
	Deterministic bool               `json:"deterministic"`
	Policy        string             `json:"policy,omitempty"`
}

// handle names a session, and one of its snapshots.
type handle struct {
	mcp.ParamsBase

	Session  string           `json:"session"`
	Snapshot audit.SnapshotID `json:"snapshot,omitempty"`
	Pointer  string           `json:"pointer,omitempty"`
	Digest   bool             `json:"digest_only,omitempty"`
	Task     string           `json:"task,omitempty"`
}

type openParams struct {
	mcp.ParamsBase

	Task   string          `json:"task,omitempty"`
	State  json.RawMessage `json:"state,omitempty"`
	Seed   uint64          `json:"seed,omitempty"`
	Clock  time.Time       `json:"clock,omitzero"`
	Shared string          `json:"shared,omitempty"`
}

type tasksParams struct {
	mcp.ParamsBase

	Seed uint64 `json:"seed,omitempty"`
	N    int    `json:"n,omitempty"`
}

// answer is the result of every method of the extension; each fills its part.
type answer struct {
	mcp.ResultBase

	Session  string             `json:"session,omitempty"`
	Snapshot audit.SnapshotID   `json:"snapshot,omitempty"`
	State    json.RawMessage    `json:"state,omitempty"`
	Digest   audit.Digest       `json:"digest,omitzero"`
	Check    *audit.CheckResult `json:"check,omitempty"`
	Tasks    []audit.Task       `json:"tasks,omitempty"`
}

// result is what the adapter needs of a tool's result beside its content.
type result struct {
	Content []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	} `json:"content"`
	Type string                     `json:"resultType"`
	Meta map[string]json.RawMessage `json:"_meta"`
}
