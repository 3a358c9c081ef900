package audit

import (
	"context"
	"time"
)

// Clause is one line of a contract test: what an environment must keep, whether
// it does, and what was seen.
type Clause struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // pass, FAIL or n/a
	Seen    string `json:"seen"`
}

// The verdicts of a clause.
const (
	ClausePass          = "pass"
	ClauseFail          = "FAIL"
	ClauseNotApplicable = "n/a"
)

// Contract is the outcome of an environment's contract test: what an auditor
// relies on, tried on the live environment when it was connected.
type Contract struct {
	Ref         string          `json:"ref,omitempty"`     // the name that people use
	Adapter     string          `json:"adapter,omitempty"` // of a mounted environment: mcp-stdio, python-class, ...
	Environment EnvironmentInfo `json:"environment"`
	Tools       int             `json:"tools"`
	Findings    []Clause        `json:"findings"`
	Noise       []NoisePath     `json:"noise,omitempty"` // where a second identical run answered otherwise
	Jail        string          `json:"jail,omitempty"`  // what the environment's code is kept from, and what not
	Notes       []string        `json:"notes,omitempty"` // found on the way: declarations that are not kept
	Checked     time.Time       `json:"checked,omitzero"`
}

// OK reports whether nothing failed.
func (c Contract) OK() bool { return c.Failed() == 0 }

// Failed counts what failed.
func (c Contract) Failed() int {
	n := 0
	for _, f := range c.Findings {
		if f.Verdict == ClauseFail {
			n++
		}
	}
	return n
}

// ContractSource reads the contracts that were kept.
type ContractSource interface {
	// Contracts lists the last contract of every environment, by name.
	Contracts(ctx context.Context) ([]Contract, error)
	// Contract is the last contract of an environment. One that was never tested
	// is an *Error with CodeNotFound.
	Contract(ctx context.Context, ref string) (Contract, error)
}
