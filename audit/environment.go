package audit

import (
	"context"
	"encoding/json"
	"time"

	"understudy/audit/diff"
)

// Environment is an executable world that tool calls can be run against: the
// truth that every rehearsal is measured by. Implementations live in sandbox
// and are safe for concurrent use.
type Environment interface {
	// Info describes the environment; it never changes while the environment is open.
	Info() EnvironmentInfo
	// Tools lists what can be called, in a stable order.
	Tools(ctx context.Context) ([]Tool, error)
	// Open starts an isolated session, which outlives ctx: that bounds the opening
	// alone. A start state that cannot be built is an *Error.
	Open(ctx context.Context, start Start) (Session, error)
	// Close releases what the environment holds; open sessions end.
	Close() error
}

// Session is one isolated copy of the world. Calls of one session are made one
// after the other; different sessions never see each other unless Start.Shared
// says so.
type Session interface {
	// Call executes one tool call. A refusal, invalid arguments, a sandbox fault
	// and a time-out are Observations with a Status; the error is only for the
	// caller's own faults (closed session, cancelled context).
	Call(ctx context.Context, call Call) (Observation, error)
	Close() error
}

// The optional capabilities of a Session, found by type assertion and named in
// EnvironmentInfo.Capabilities (an adapter's type may have a method that its
// server lacks).
type (
	// DryRunner executes a call and drops its effects.
	DryRunner interface {
		DryRun(ctx context.Context, call Call) (Observation, error)
	}
	// Snapshotter keeps and restores the whole state of a session.
	Snapshotter interface {
		Snapshot(ctx context.Context) (SnapshotID, error)
		Restore(ctx context.Context, id SnapshotID) error
		Drop(id SnapshotID)
	}
	// Forker opens an independent session in the same state.
	Forker interface {
		Fork(ctx context.Context) (Session, error)
	}
	// Stater exposes the state: its digest, and the JSON at a JSON Pointer ("" = all).
	Stater interface {
		StateDigest(ctx context.Context) (Digest, error)
		State(ctx context.Context, pointer string) (json.RawMessage, error)
	}
	// Prober names the read-only calls that show what a write did.
	Prober interface {
		Probes(call Call) []Call
	}
	// Checker evaluates a task's terminal check over the initial and the current state.
	Checker interface {
		Check(ctx context.Context, task string) (CheckResult, error)
	}
	// Inspector names the invariants of the world that the session has broken
	// (money conserved, no orphan ids); none is an empty list.
	Inspector interface {
		Violations(ctx context.Context) ([]string, error)
	}
)

// Tasker is the optional capability of an Environment that has tasks of its own.
type Tasker interface {
	// Tasks lists n tasks made from seed; zero n and seed are the environment's
	// own. The same arguments give the same tasks, and a task's ID is enough for
	// Start.Task and Checker.Check to find it again.
	Tasks(ctx context.Context, seed uint64, n int) ([]Task, error)
}

// Believer is the optional capability of an Environment that knows how its tasks
// are drawn.
type Believer interface {
	// Possible draws at most n initial states that whoever has read a task's prompt,
	// and the answers to the calls since, must think possible: what is hidden is
	// drawn anew, given what is seen. Fewer come back where they are hard to find.
	Possible(ctx context.Context, task string, seen []Answered, seed uint64, n int) ([]json.RawMessage, error)
}

// Answered is a call and its answer.
type Answered struct {
	Call Call
	Raw  []byte
}

// Task is something that a user wants done, with a reference solution and the
// terminal checks that decide whether it was.
type Task struct {
	ID       string          `json:"id"`
	Prompt   string          `json:"prompt"`          // what the user wants, in natural language
	User     json.RawMessage `json:"user,omitempty"`  // facts for a scripted user
	Setup    []Call          `json:"setup,omitempty"` // made before the agent starts
	Solution []Call          `json:"solution"`
	Checks   []TaskCheck     `json:"checks"`
}

// TaskCheck is one terminal check: a function of the environment with its parameters.
type TaskCheck struct {
	Check  string          `json:"check"`
	Params json.RawMessage `json:"params,omitempty"`
}

// SnapshotID names a kept state within one session.
type SnapshotID string

// Capability names an optional ability of an environment's sessions.
type Capability string

// The closed list of capabilities.
const (
	CanDryRun   Capability = "dry_run"
	CanSnapshot Capability = "snapshot"
	CanFork     Capability = "fork"
	CanState    Capability = "state"
	CanProbe    Capability = "probe"
	CanCheck    Capability = "check"
	CanSeed     Capability = "seed"  // ids or randomness depend on Start.Seed
	CanShare    Capability = "share" // sessions can share a state (Start.Shared)
)

// EnvironmentInfo describes an environment.
type EnvironmentInfo struct {
	Name          string       `json:"name"`
	Version       string       `json:"version"` // a label for people, such as "2"
	Digest        Digest       `json:"digest"`  // of rules, schemas and data: what verdicts name
	Capabilities  []Capability `json:"capabilities"`
	Deterministic bool         `json:"deterministic"`    // clock, ids and randomness live in the state
	Policy        string       `json:"policy,omitempty"` // the rules that an agent's prompt states, Markdown
}

// Start says how a session begins. The zero value is the environment's default state.
type Start struct {
	Task   string          `json:"task,omitempty"`   // a task's id; its initial state and clock apply
	State  json.RawMessage `json:"state,omitempty"`  // whole initial state, overrides the default
	Seed   uint64          `json:"seed,omitempty"`   // of ids and randomness
	Clock  time.Time       `json:"clock,omitzero"`   // the world's now; zero = the environment's own
	Shared string          `json:"shared,omitempty"` // sessions that name the same share live on one state
}

// Effect says whether a tool may change the world.
type Effect string

// The effects of a tool.
const (
	Read          Effect = "read"
	Write         Effect = "write"
	UnknownEffect Effect = "unknown"
)

// Tool declares one callable tool.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`            // JSON Schema 2020-12 of the arguments object
	Output      json.RawMessage `json:"output,omitempty"` // JSON Schema of an ok body; nil = not declared
	Effect      Effect          `json:"effect"`
	Role        string          `json:"role"`             // who may call it: assistant or user
	Errors      []Family        `json:"errors,omitempty"` // families it may refuse with; nil = not declared
	Echo        EchoMap         `json:"echo,omitempty"`   // response paths that equal state cells after an ok call
}

// Call is one tool call as the policy made it.
type Call struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // as written; may be malformed
	Role      string          `json:"role,omitempty"`
}

// Status is a sandbox's answer to the question "what became of this call?".
type Status string

// The closed list of statuses. Refused and Invalid become an error outcome;
// Fault and UnknownStatus mask the verdict (design.md 3).
const (
	StatusOK      Status = "ok"
	StatusRefused Status = "refused" // a business rule said no
	StatusInvalid Status = "invalid" // arguments, unknown tool, malformed call
	StatusFault   Status = "fault"   // the sandbox broke or hit a limit
	StatusUnknown Status = "unknown" // timed out: it may have happened
)

// Evidence says how an observation's effect is known. Levels are always named
// and never averaged together.
type Evidence string

// The evidence levels, weakest first.
const (
	EvidenceNone     Evidence = "none"
	EvidenceResponse Evidence = "response" // only the response was seen
	EvidenceProbed   Evidence = "probed"   // reads before and after, over Scope only
	EvidenceReplayed Evidence = "replayed" // a second instance replayed the history
	EvidenceExact    Evidence = "exact"    // the whole state, before and after
)

// CallError is the structured reason of a refused or invalid call.
type CallError struct {
	Family  Family          `json:"family"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitempty"`
}

// Observation is what the sandbox answered, and what is known about the effect.
type Observation struct {
	Status   Status     `json:"status"`
	Raw      []byte     `json:"raw"` // the bytes that the agent would see
	Error    *CallError `json:"error,omitempty"`
	Evidence Evidence   `json:"evidence"`
	Delta    diff.Patch `json:"delta"`           // nil = not known, empty = known to be none
	Before   Digest     `json:"before,omitzero"` // zero = not known
	After    Digest     `json:"after,omitzero"`
	Scope    []string   `json:"scope,omitempty"` // JSON Pointers or probe names that Delta covers; nil with exact evidence = everything
	Cost     Cost       `json:"cost"`
}

// Cost is what one call used. Wall time is information only: it is never part
// of a key or of a verdict.
type Cost struct {
	Steps uint64        `json:"steps,omitempty"`
	Bytes uint64        `json:"bytes,omitempty"`
	Wall  time.Duration `json:"wall,omitempty"`
}

// CheckResult is the outcome of a task's terminal checks. Initial counts what
// already holds before anything is done, so that a do-nothing agent earns nothing.
type CheckResult struct {
	Checks  int      `json:"checks"`
	Passed  int      `json:"passed"`
	Initial int      `json:"initial"`
	Failed  []string `json:"failed,omitempty"`
}

// Success reports whether every check passed. A task without checks never succeeds.
func (r CheckResult) Success() bool { return r.Checks > 0 && r.Passed == r.Checks }
