package gate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"understudy/audit"
	"understudy/audit/stat"
)

// Status is what a check, or the whole gate, comes to.
type Status string

// The statuses. Of the whole gate: FAIL over ERROR over INCONCLUSIVE over PASS.
const (
	Pass         Status = "PASS"
	Fail         Status = "FAIL"
	Inconclusive Status = "INCONCLUSIVE"
	Error        Status = "ERROR"
)

// The exit codes of a verdict; what prevented one has codes of the command line's own.
const (
	exitPass         = 0
	exitFail         = 1
	exitInconclusive = 2
	exitError        = 4 // as of a store that does not answer
)

// Kind says what a check compares.
type Kind string

// The kinds of checks.
const (
	Limit    Kind = "limit"    // a figure with a fixed bound
	Count    Kind = "count"    // the number of faults
	Change   Kind = "change"   // the paired difference to the baseline
	Findings Kind = "findings" // the number of new kinds of difference
)

// Check is one condition on one tool, decided.
type Check struct {
	Environment   string        `json:"environment,omitempty"`
	Version       string        `json:"version,omitempty"`
	Tool          string        `json:"tool,omitempty"`
	Figure        audit.Figure  `json:"figure,omitempty"`
	Kind          Kind          `json:"kind"`
	Modes         []audit.Mode  `json:"modes,omitempty"`
	Bound         string        `json:"bound"` // min, max, max_count, allowed_decrease, allowed_increase, max_new
	Limit         float64       `json:"limit"`
	Status        Status        `json:"status"`
	Estimate      stat.Estimate `json:"estimate"`             // its bounds are one-sided, at PassLevel and FailLevel
	PassP         float64       `json:"pass_p"`               // adjusted p-value of "the limit is broken"
	FailP         float64       `json:"fail_p"`               // adjusted p-value of "the limit is kept"
	PassLevel     float64       `json:"pass_level,omitempty"` // error rate left to this check after the correction
	FailLevel     float64       `json:"fail_level,omitempty"`
	Masked        float64       `json:"masked"` // share of the tool's pairs without a number
	Critical      bool          `json:"critical,omitempty"`
	Informational bool          `json:"informational,omitempty"`
	Waived        *Waiver       `json:"waived,omitempty"`
	Needs         int           `json:"needs,omitempty"` // further calls, on the present trend
	Reason        string        `json:"reason,omitempty"`
	Line          int           `json:"line,omitempty"` // of the policy
}

// Subject names what the check is about.
func (c *Check) Subject() string {
	if c.Tool == "" {
		return string(c.Kind)
	}
	return fmt.Sprintf("%s %s", c.Tool, c.Figure)
}

// decides reports whether the check takes part in the gate's status.
func (c *Check) decides() bool { return !c.Informational && c.Waived == nil }

// Sentence says the check in one line, with n and the formula's bounds.
func (c *Check) Sentence() string {
	var b strings.Builder
	b.WriteString(c.Subject())
	if c.Kind == Change {
		b.WriteString(" change")
	}
	switch {
	case c.Kind == Count || c.Kind == Findings:
		fmt.Fprintf(&b, " %s, %s %s", number(c.Estimate.Value), c.Bound, number(c.Limit))
	case c.Estimate.Defined():
		fmt.Fprintf(&b, " %s [%s, %s], %s %s", number(c.Estimate.Value), number(c.Estimate.Lo), number(c.Estimate.Hi), c.Bound, number(c.Limit))
	default:
		fmt.Fprintf(&b, ", %s %s", c.Bound, number(c.Limit))
	}
	fmt.Fprintf(&b, ", n=%d", c.Estimate.N)
	if c.Needs > 0 && c.Status != Pass {
		fmt.Fprintf(&b, ", needs %d more calls on %s", c.Needs, c.Tool)
	} else if c.Reason != "" {
		b.WriteString(": " + c.Reason)
	}
	return plain(b.String())
}

// Verdict is the decision with everything that led to it.
type Verdict struct {
	Schema   string        `json:"schema"` // understudy.gate/1
	Status   Status        `json:"status"`
	ExitCode int           `json:"exit_code"`
	Line     string        `json:"line"` // the verdict in one sentence
	Decided  time.Time     `json:"decided"`
	Options  Options       `json:"options"`
	Policy   PolicyText    `json:"policy"`
	Checks   []Check       `json:"checks"`
	New      []string      `json:"new_findings,omitempty"` // fingerprints
	Needs    []audit.Order `json:"needs,omitempty"`
	Notes    []string      `json:"notes,omitempty"`
	Evidence *Evidence     `json:"evidence"`
}

// PolicyText pins the gate policy that decided.
type PolicyText struct {
	Digest string `json:"digest"` // SHA-256 of Text
	Text   string `json:"text"`
}

// Options are the circumstances of one decision.
type Options struct {
	Now            time.Time `json:"-"`                         // decides what has expired; stored as Decided
	InconclusiveAs Status    `json:"inconclusive_as,omitempty"` // PASS or FAIL instead of INCONCLUSIVE
	FailExit       int       `json:"fail_exit,omitempty"`       // instead of 1
	PolicyFile     string    `json:"policy_file,omitempty"`     // as reports should name it
}

// exitCode is the code of a status under the options.
func (o Options) exitCode(s Status) int {
	switch s {
	case Pass:
		return exitPass
	case Fail:
		return cmp.Or(o.FailExit, exitFail)
	case Inconclusive:
		return exitInconclusive
	case Error:
	}
	return exitError
}

// rank orders statuses by gravity.
func (s Status) rank() int {
	switch s {
	case Fail:
		return 3
	case Error:
		return 2
	case Inconclusive:
		return 1
	case Pass:
		return 0
	}
	return 2
}
