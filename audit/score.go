package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"
)

// Scorer pays calibration rewards for REHEARSE outputs: one interface for our
// own trainer in process and for everyone else's over HTTP or NATS. Hook is the
// implementation, web and audit/queue carry it.
type Scorer interface {
	// Score audits and pays a batch. It returns when every output has its answer
	// or the batch's deadline has passed; what has none by then is pending and
	// goes on. The same batch again is answered with the same scores and pays
	// nothing twice. A batch that cannot be scored as a whole is CodeInvalid,
	// CodeUnprocessable or CodeLimit, one too many at once CodeBusy.
	Score(ctx context.Context, batch ScoreBatch) (ScoredBatch, error)
	// Scores pulls a batch by its id, waiting at most until wait has passed or ten
	// minutes, and takes an interrupted one up again. An unknown id is CodeNotFound.
	Scores(ctx context.Context, id Digest, wait time.Duration) (ScoredBatch, error)
}

// ScoreBatch asks for the rewards of one policy's outputs at one training step.
type ScoreBatch struct {
	Run        string   `json:"run,omitempty"`         // where verdicts are kept; "" = "training " and the policy
	Policy     string   `json:"policy"`                // name of the policy in training
	Checkpoint int64    `json:"checkpoint"`            // training step: baselines and budget are the step's
	DeadlineMS int64    `json:"deadline_ms,omitempty"` // answer within; 0 = 30 s
	Outputs    []Output `json:"outputs"`
}

// Output is one output of the policy with the place at which it was made.
type Output struct {
	Environment string    `json:"environment"`            // name@version
	Start       Start     `json:"start,omitzero"`         // task, seed, initial state
	History     []Earlier `json:"history,omitempty"`      // the calls before this one
	Call        Call      `json:"call"`                   // the action; arguments as JSON or as the text that was written
	Rehearsal   *string   `json:"rehearsal"`              // raw text of the REHEARSE output, required, may be empty
	Role        string    `json:"role,omitempty"`         // rehearse (default) or act: an ACT output is never paid
	Mode        Mode      `json:"mode,omitempty"`         // forced (default) or open: History holds rehearsed answers
	Episode     string    `json:"episode,omitempty"`      // the rollout; "" = by content
	PromptGroup string    `json:"prompt_group,omitempty"` // the rollouts of one prompt; "" = the task, else the episode
	Step        *int      `json:"step,omitempty"`         // position in the episode; none = after History
	Sample      *int      `json:"sample,omitempty"`       // index among the rehearsals of the action; none = by content
	Attempt     int       `json:"attempt,omitempty"`      // counted up to have an outage audited again
	Confidence  *float64  `json:"confidence,omitempty"`   // in [0,1]
	Truncated   bool      `json:"truncated,omitempty"`    // the model stopped at its length limit
	Success     *bool     `json:"success,omitempty"`      // with an episode's last output: did the task succeed in the rehearsed world
}

// Earlier is one call of an output's history.
type Earlier struct {
	Call   Call    `json:"call"`
	Answer *string `json:"answer,omitempty"` // raw text that REHEARSE answered; mode open needs it
}

// ScoredBatch is what became of a batch, in the order of its outputs.
type ScoredBatch struct {
	ID         Digest   `json:"id"` // of the batch: pull pending scores by it
	Run        string   `json:"run"`
	Policy     string   `json:"policy"`
	Checkpoint int64    `json:"checkpoint"`
	Pending    int      `json:"pending"` // how many have no answer yet
	Scores     []Reward `json:"scores"`
}

// The roles of an output.
const (
	RoleRehearse = "rehearse"
	RoleAct      = "act"
)

// The limits of one batch; beyond them it is CodeLimit.
const (
	MaxOutputs    = 4096     // outputs of a batch
	MaxScoreBytes = 64 << 20 // of a batch's JSON
	maxHistory    = 1000     // calls before an output
	maxDeadline   = 10 * time.Minute
	// DefaultDeadline is how long a batch is waited for when it does not say.
	DefaultDeadline = 30 * time.Second
)

// deadline is how long the batch is waited for.
func (b *ScoreBatch) deadline() time.Duration {
	if b.DeadlineMS == 0 {
		return DefaultDeadline
	}
	return time.Duration(min(b.DeadlineMS, maxDeadline.Milliseconds())) * time.Millisecond
}

// DecodeScoreBatch reads the JSON of a batch strictly: an unknown member is an
// error, because a misspelt one would be paid for wrongly.
func DecodeScoreBatch(text []byte) (ScoreBatch, error) {
	var b ScoreBatch
	if len(text) > MaxScoreBytes {
		return b, &Error{Code: CodeLimit, Message: "a batch of " + strconv.Itoa(len(text)) + " bytes", Hint: "send at most 64 MiB at once"}
	}
	if err := batchCrowd().Check(text); err != nil {
		return b, err
	}
	if err := DecodeStrict(text, &b); err != nil {
		return b, &Error{Code: CodeInvalid, Message: "the batch cannot be read", Hint: "GET /v1/openapi.json describes it", Err: err}
	}
	return b, nil
}

// DecodePlace reads the JSON of one output, strictly, into an Output or a type
// that embeds one.
func DecodePlace(text []byte, into any) error {
	if err := placeCrowd().Check(text); err != nil {
		return err
	}
	return DecodeStrict(text, into)
}

// rawArguments are a call's arguments as the policy wrote them: OpenAI's format
// carries them as a string, which may hold anything.
func rawArguments(arguments json.RawMessage) json.RawMessage {
	var text string
	if isText(arguments) && json.Unmarshal(arguments, &text) == nil {
		return json.RawMessage(text)
	}
	return arguments
}

func isText(arguments json.RawMessage) bool { return len(arguments) > 0 && arguments[0] == '"' }

// content identifies what an output says at which place: nothing of when, or
// under which number, it was sent.
func (o *Output) content(initial Digest) Digest {
	b := appendSized(make([]byte, 0, 512), o.Environment)
	b = append(b, initial[:]...)
	b = appendSized(b, string(o.Mode))
	for i := range o.History {
		call := CallDigest(o.History[i].Call)
		b = append(b, call[:]...)
		if o.Mode == Open { // in mode forced nothing depends on it
			b = appendSized(append(b, 'a'), *o.History[i].Answer)
		}
	}
	call := CallDigest(o.Call)
	b = append(b, call[:]...)
	b = appendSized(b, o.Role)
	b = appendSized(b, *o.Rehearsal)
	return sha256.Sum256(b)
}

// payee identifies who is paid: one place of one attempt of a run's policy at
// one training step. It is paid once.
func (b *ScoreBatch) payee(o *Output) Digest {
	text := appendSized(nil, b.Run)
	text = appendSized(text, b.Policy)
	text = appendSized(text, o.Episode)
	text = appendSized(text, o.Role)
	for _, n := range []int64{b.Checkpoint, int64(*o.Step), int64(*o.Sample), int64(o.Attempt)} {
		text = strconv.AppendInt(append(text, ','), n, 10)
	}
	return sha256.Sum256(text)
}

// sampleOf numbers a rehearsal that came without a number by what it says: the
// same text again is the same sample.
func sampleOf(content Digest) int { return int(binary.BigEndian.Uint32(content[:]) >> 1) }
