// Package guard stands between a policy and a real environment: what it proposes is
// made only when schema, permission, idempotency, business rules and, where the risk
// is high or a person wants to be asked, an approval let it through. Rehearsal only
// proposes; the guard decides.
//
//	call ─► schema ─► permission ─► idempotency ─► validators ─► risk ─► approval
//	                                                               │ decision, with its reason
//	                                   journal: decided (durable) ◄┘
//	                                   the call, once
//	                                   journal: answered
//
// The decision is in the journal before the call is made. An execution that was cut
// short replays what was answered, and stops at a write that was decided but not
// answered: it may have happened, and is never made twice.
package guard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/audit"
)

// Check names what decided.
type Check string

// The checks, in their order.
const (
	CheckSchema      Check = "schema"
	CheckPermission  Check = "permission"
	CheckIdempotency Check = "idempotency"
	CheckRule        Check = "rule"
	CheckRisk        Check = "risk"
	CheckApproval    Check = "approval"
)

// Decision is what became of a proposed call, and why.
type Decision struct {
	Allowed  bool         `json:"allowed"`
	Check    Check        `json:"check"` // that decided
	Reason   string       `json:"reason"`
	Family   audit.Family `json:"family,omitempty"` // of the refusal that ACT reads
	Risk     *Risk        `json:"risk,omitempty"`   // of a write that got so far
	Approver string       `json:"approver,omitempty"`
}

// Validator is one business rule. Its error is the reason of a refusal.
type Validator struct {
	Name  string
	Check func(ctx context.Context, call audit.Call, history []audit.Turn) error
}

// Approval is a person's answer.
type Approval struct {
	Granted bool
	By      string
	Reason  string
}

// ApproveFunc asks a person about a write. An error is no answer: the call is not made.
type ApproveFunc func(ctx context.Context, call audit.Call, risk Risk) (Approval, error)

// Config says what is let through.
type Config struct {
	Tools      []audit.Tool
	Permit     func(call audit.Call, tool audit.Tool) error // nil = every tool of the caller's role
	Validators []Validator
	Measured   map[string]Measured // by tool; a tool without figures has proved nothing
	Prior      float64             // P(a write is refused) before anything is known; 0 = 0.5
	Threshold  float64             // risk up to which no person is asked; 0 = 0.2
	Approve    ApproveFunc         // nil = nobody can be asked: what would need it is refused
	ApproveAll bool                // every write is asked about
	Repeats    bool                // the same successful write may be made again in one execution
	Journal    Journal
	Now        func() time.Time
}

const (
	defaultPrior     = 0.5
	defaultThreshold = 0.2
)

// Guard decides. It is safe for concurrent use, one execution by one goroutine.
type Guard struct {
	Config
	tools   map[string]audit.Tool
	schemas map[string]*jsonschema.Schema
}

// New compiles the tools' schemas.
func New(c Config) (*Guard, error) {
	if c.Journal == nil {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "a commit guard without a journal", Hint: "give one: without it nothing tells whether a write was made"}
	}
	c.Prior, c.Threshold = cmp.Or(c.Prior, defaultPrior), cmp.Or(c.Threshold, defaultThreshold)
	if c.Now == nil {
		c.Now = time.Now
	}
	g := &Guard{Config: c, tools: map[string]audit.Tool{}, schemas: map[string]*jsonschema.Schema{}}
	for _, tool := range c.Tools {
		schema, err := compile(tool)
		if err != nil {
			return nil, &audit.Error{Code: audit.CodeInvalid, Message: "input schema of tool " + tool.Name, Err: err, Hint: "correct it where the tool is declared"}
		}
		g.tools[tool.Name], g.schemas[tool.Name] = tool, schema
	}
	return g, nil
}

func compile(tool audit.Tool) (*jsonschema.Schema, error) {
	text := tool.Input
	if len(text) == 0 {
		text = json.RawMessage(`{"type":"object"}`)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	const at = "tool.json"
	if err := compiler.AddResource(at, document); err != nil {
		return nil, err
	}
	return compiler.Compile(at)
}

// noLoader refuses references to other documents.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s: not followed", url)
}

// writes says whether a call may change the world; what is not declared may.
func (g *Guard) writes(call audit.Call) bool { return g.tools[call.Tool].Effect != audit.Read }

// decide runs the checks in order. The error is for an approval that could not be asked for.
func (g *Guard) decide(ctx context.Context, call audit.Call, history []audit.Turn, evidence Evidence) (Decision, error) {
	refused := func(check Check, family audit.Family, err error) (Decision, error) {
		return Decision{Check: check, Family: family, Reason: err.Error()}, nil
	}
	tool, known := g.tools[call.Tool]
	if !known {
		return refused(CheckSchema, audit.UnknownTool, fmt.Errorf("tool %q is not declared", call.Tool))
	}
	if family, err := g.valid(call); err != nil {
		return refused(CheckSchema, family, err)
	}
	if err := g.permitted(call, tool); err != nil {
		return refused(CheckPermission, audit.Authorization, err)
	}
	if !g.writes(call) {
		return Decision{Allowed: true, Check: CheckPermission, Reason: "a read"}, nil
	}
	for _, v := range g.Validators {
		if err := v.Check(ctx, call, history); err != nil {
			return refused(CheckRule, audit.Precondition, fmt.Errorf("%s: %w", v.Name, err))
		}
	}
	return g.weigh(ctx, call, evidence)
}

// valid checks the arguments against the tool's schema.
func (g *Guard) valid(call audit.Call) (audit.Family, error) {
	arguments := bytes.TrimSpace(call.Arguments)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return audit.MalformedCall, fmt.Errorf("arguments: %w", err)
	}
	if _, ok := instance.(map[string]any); !ok {
		return audit.MalformedCall, errors.New("arguments: not a JSON object")
	}
	if err := g.schemas[call.Tool].Validate(instance); err != nil {
		return audit.SchemaInvalid, fmt.Errorf("arguments: %w", err)
	}
	return "", nil
}

func (g *Guard) permitted(call audit.Call, tool audit.Tool) error {
	if role := cmp.Or(call.Role, "assistant"); tool.Role != "" && tool.Role != role {
		return fmt.Errorf("tool %s is for the %s", call.Tool, tool.Role)
	}
	if g.Permit == nil {
		return nil
	}
	return g.Permit(call, tool)
}

// weigh decides by risk, and asks a person where that is over the threshold.
func (g *Guard) weigh(ctx context.Context, call audit.Call, evidence Evidence) (Decision, error) {
	risk := g.risk(call, evidence)
	d := Decision{Allowed: true, Check: CheckRisk, Risk: &risk, Reason: risk.Reason}
	if risk.Value <= g.Threshold && !g.ApproveAll {
		return d, nil
	}
	if g.Approve == nil {
		d.Allowed, d.Family = false, audit.Authorization
		d.Reason = fmt.Sprintf("%s: over %.2f, and nobody can be asked", risk.Reason, g.Threshold)
		return d, nil
	}
	approval, err := g.Approve(ctx, call, risk)
	if err != nil {
		return d, fmt.Errorf("ask for an approval of %s: %w", call.Tool, err)
	}
	d.Check, d.Allowed, d.Approver = CheckApproval, approval.Granted, approval.By
	d.Reason = fmt.Sprintf("%s; %s", approval.Reason, risk.Reason)
	if !approval.Granted {
		d.Family = audit.Authorization
	}
	return d, nil
}

// keyOf is the idempotency key of the n-th call of an execution.
func keyOf(execution string, n int, call audit.Call) audit.Digest {
	return sha256.Sum256(fmt.Appendf(nil, "%q/%d/%s", execution, n, audit.CallDigest(call)))
}
