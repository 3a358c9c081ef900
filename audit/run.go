package audit

import (
	"encoding/json"
	"time"
)

// NewRun describes a run before it starts.
type NewRun struct {
	Name       string          `json:"name"` // unique; what people and URLs call it
	Policy     string          `json:"policy"`
	Checkpoint int64           `json:"checkpoint,omitempty"`
	Tags       []string        `json:"tags,omitempty"`
	Settings   json.RawMessage `json:"settings,omitempty"` // effective configuration, secrets redacted
}

// RunState is where a run stands.
type RunState string

// The states of a run.
const (
	RunOpen     RunState = "open"
	RunComplete RunState = "complete"
	RunDropping RunState = "dropping" // its rows are being removed; nothing enters any more
)

// Run is a run with its progress, as the ledger counts it.
type Run struct {
	NewRun
	Number       int32     `json:"number"` // of the ledger, increasing: the order of lists
	State        RunState  `json:"state"`
	Started      time.Time `json:"started"`
	Completed    time.Time `json:"completed,omitzero"`
	Episodes     int       `json:"episodes"`
	Open         int       `json:"open"`         // episodes without a result yet
	Done         int       `json:"done"`         // episodes with results
	Dead         int       `json:"dead"`         // episodes given up
	Undetermined int       `json:"undetermined"` // episodes that no answer can be had for
	Samples      int       `json:"samples"`      // actions that were asked to be audited
	Results      int       `json:"results"`      // actions that have a result
	Duplicates   int       `json:"duplicates"`   // episodes that were finished again, absorbed
	Late         int       `json:"late"`         // episodes whose result came after they were given up or sent again
	Conflicts    int       `json:"conflicts"`    // results that disagree with the ledger's
}

// Page asks for a part of a list, in the list's own order.
type Page struct {
	After string `json:"after,omitempty"` // Next of the page before; "" = from the start
	Limit int    `json:"limit,omitempty"` // default 50, at most 1000
}

// PairLine is one pair of a run in a list.
type PairLine struct {
	Key          Digest     `json:"key"`
	Episode      string     `json:"episode"`
	Step         int        `json:"step"`
	Tool         string     `json:"tool"`
	Mode         Mode       `json:"mode"`
	PromptGroup  string     `json:"prompt_group"`
	Real         string     `json:"real"` // ok, ok_empty, error:FAMILY
	Rehearsed    string     `json:"rehearsed"`
	Severity     Severity   `json:"severity"`
	FalseSuccess bool       `json:"false_success"`
	Masked       MaskReason `json:"masked,omitempty"`
	Committed    time.Time  `json:"committed"`
}

// PairFilter narrows a list of pairs; empty fields do not.
type PairFilter struct {
	Tool        string   `json:"tool,omitempty"`
	Mode        Mode     `json:"mode,omitempty"`
	MinSeverity Severity `json:"min_severity,omitempty"` // masked pairs have none
	Masked      *bool    `json:"masked,omitempty"`
}

// GateRecord is one decision of a gate, as the ledger keeps it.
type GateRecord struct {
	Run          string          `json:"run"`
	Decided      time.Time       `json:"decided"`
	Status       string          `json:"status"`             // PASS, FAIL, INCONCLUSIVE or ERROR
	PolicyDigest string          `json:"policy_digest"`      // of the gate policy's text
	Document     json.RawMessage `json:"document,omitempty"` // recomputes the verdict; left out in lists
}

// GateFilter narrows a history of gates; empty fields do not.
type GateFilter struct {
	Run          string `json:"run,omitempty"`
	PolicyDigest string `json:"policy_digest,omitempty"`
}
