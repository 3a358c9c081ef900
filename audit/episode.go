package audit

import "encoding/json"

// Mode says which history the REHEARSE role and the sandbox share (design.md 3).
type Mode string

// The audit modes.
const (
	Forced Mode = "forced" // history = executed truth: is this single answer right?
	Open   Mode = "open"   // history = rehearsed world: the trajectory as the trainer saw it
	Probe  Mode = "probe"  // read-only calls asked of both after a write
	Canary Mode = "canary" // calls that the sandbox must refuse
)

// Episode is the ordered actions of one rollout: the unit of work, of commit
// and of redelivery, because id bijection, fork point and cascades need the
// earlier pairs.
type Episode struct {
	ID          string   `json:"id"`           // unique within its source
	PromptGroup string   `json:"prompt_group"` // the K rollouts of one prompt: the cluster of every interval
	Policy      string   `json:"policy"`       // name or digest of the checkpoint that acted and rehearsed
	Checkpoint  int64    `json:"checkpoint,omitempty"`
	WireAPI     string   `json:"wire_api,omitempty"` // chat, responses, completions, engine, recorded
	Environment string   `json:"environment"`        // "name" or "name@version"
	Start       Start    `json:"start,omitzero"`
	Mode        Mode     `json:"mode"`
	Actions     []Action `json:"actions"`
	Success     *bool    `json:"success,omitempty"` // terminal task success where the source knows it
	Source      *Source  `json:"source,omitempty"`
}

// Source says where an imported episode was read.
type Source struct {
	Format string `json:"format"`
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
}

// Action is one tool call of an episode, with what the caller already knows of it.
type Action struct {
	Step      int             `json:"step"`              // position in the episode, from 0
	CallID    string          `json:"call_id,omitempty"` // the format's own id; may repeat
	Call      Call            `json:"call"`
	Prompt    json.RawMessage `json:"prompt,omitempty"`    // messages that the policy saw, where kept
	Rehearsal *Rehearsal      `json:"rehearsal,omitempty"` // brought along by the caller
	Recorded  *Recorded       `json:"recorded,omitempty"`  // the recorded real answer, where the source has one
	Sample    int             `json:"sample"`              // index among the rehearsals of one action
	Attempt   int             `json:"attempt,omitempty"`
	Inclusion float64         `json:"inclusion,omitempty"` // π, logged before execution; 0 = always audited (1)
	Message   int             `json:"message,omitempty"`   // index of the assistant message; parallel calls share it
	Replay    bool            `json:"replay,omitempty"`    // executed to reach the pre-state of later actions, not audited
	Foreign   bool            `json:"foreign,omitempty"`   // made by somebody else, in a second session on the shared state: never audited, never shown to the policy
	Probe     int             `json:"probe,omitempty"`     // 1, 2, ... = a probe that follows the step's write; 0 = the action itself
	Canary    *CanaryLabel    `json:"canary,omitempty"`    // what a canary action tests; nil = an ordinary action
}

// CanaryLabel says what a canary action tests: a call, made from a valid one by
// one mutation, that the sandbox was seen to refuse.
type CanaryLabel struct {
	Mutation string      `json:"mutation"` // one of the Mutate constants
	Level    CanaryLevel `json:"level"`
	Family   Family      `json:"family"` // of the refusal that was seen when the canary was made
}

// CanaryLevel says whether a schema alone could have refused the call.
type CanaryLevel string

// The canary levels; their false-success rates are never pooled.
const (
	SchemaLevel CanaryLevel = "schema"
	DomainLevel CanaryLevel = "domain"
)

// Rehearsal is what the REHEARSE role answered. A log-probability that is not
// finite is dropped with the flag "non_finite_logprob" before it is stored.
type Rehearsal struct {
	Raw         []byte          `json:"raw"`
	Failed      *bool           `json:"failed,omitempty"`      // the source's own error flag, where its format has one
	StateDelta  json.RawMessage `json:"state_delta,omitempty"` // the optional <state_delta> block, unparsed
	Confidence  *float64        `json:"confidence,omitempty"`  // stated or from log-probabilities, in [0,1]
	Tokens      []int32         `json:"tokens,omitempty"`
	LogProbs    []float32       `json:"log_probs,omitempty"`
	Truncated   bool            `json:"truncated,omitempty"`   // finish_reason length
	Unavailable string          `json:"unavailable,omitempty"` // why the model server gave no answer; the pair is masked
	Agreement   *float64        `json:"agreement,omitempty"`   // among k rehearsals of the same action
}

// Recorded is a real answer that a source brought along: evidence for judging
// the source, never the truth itself. A recorded success that the sandbox
// refuses makes the pair reference_invalid.
type Recorded struct {
	Raw    []byte `json:"raw"`
	Failed *bool  `json:"failed,omitempty"` // the source's own error flag, where its format has one
}
