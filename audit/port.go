package audit

import (
	"context"
)

// Rehearser answers in the REHEARSE role: the policy under audit, remote or
// built in. It must not see the sandbox. An answer that a server failed to give
// is a Rehearsal with Unavailable set, so that it is masked and counted; the
// error is only for the caller's own faults and a cancelled context.
type Rehearser interface {
	Rehearse(ctx context.Context, req RehearseRequest) ([]Rehearsal, error)
}

// RehearseRequest asks for k independent rehearsals of one call.
type RehearseRequest struct {
	Tools   []Tool `json:"tools"`
	Tool    Tool   `json:"tool"`
	History []Turn `json:"history"` // earlier calls and the answers that the mode gives: executed or rehearsed
	Call    Call   `json:"call"`
	Prompt  []byte `json:"prompt,omitempty"` // the episode's messages, where known
	K       int    `json:"k"`                // at least 1
	Seed    uint64 `json:"seed"`
}

// Turn is one earlier call with the answer that the history holds for it.
type Turn struct {
	Call   Call   `json:"call"`
	Answer []byte `json:"answer"`
}

// Opener finds an environment by "name" or "name@version". An unknown name is
// an *Error with CodeNotFound that lists the nearest names.
type Opener interface {
	Environment(ctx context.Context, ref string) (Environment, error)
}

// Ledger stores what was audited. It is the only writer of results.
type Ledger interface {
	// Commit stores an episode's pairs in one transaction, moves the run's
	// counters by what was really inserted, and returns how many pairs were new
	// to the run. A key that is already there with another result becomes a
	// conflict, never an overwrite. Commit is idempotent.
	Commit(ctx context.Context, run string, pairs []Pair) (inserted int, err error)
}
