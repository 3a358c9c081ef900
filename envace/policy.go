package envace

import (
	"context"
	"math"

	"understudy/audit"
)

// Output is one generation of the policy, in either role.
type Output struct {
	Role     audit.PolicyRole
	Prompt   []int32   // what it was conditioned on, as the engine read it
	Tokens   []int32   // what was sampled, with the token that ended it
	LogProbs []float32 // of those tokens under the policy that sampled them, at its temperature
	Text     string
	// Usage is how many tokens a server says it sampled, where it gives no ids.
	Usage int
	// Truncated says that the token limit ended it: it is no answer (facts/envace.md, trap 6).
	Truncated bool
}

// Sampled is how many tokens the output has.
func (o *Output) Sampled() int { return max(len(o.Tokens), o.Usage) }

// Request asks the policy for its next output.
type Request struct {
	Transcript *Transcript
	Role       audit.PolicyRole
	Call       audit.Call // that REHEARSE is to answer; the calls before it are answered in the transcript
	Seed       uint64
	Greedy     bool // the most likely token each time
	Max        int  // tokens of the output
	// First, if any, is called when the first token is there, by policies that know.
	First func()
}

// Policy is one set of weights in both roles. It is safe for concurrent use: a
// batch of rollouts asks at once. A prompt over its context is ErrPrompt.
type Policy interface {
	Generate(ctx context.Context, r Request) (Output, error)
}

// MeanProbability is exp of the mean log-probability: the geometric mean of the
// tokens' probabilities, in [0,1]. An output without tokens has 1.
func MeanProbability(logProbs []float32) float64 {
	if len(logProbs) == 0 {
		return 1
	}
	sum := 0.0
	for _, lp := range logProbs {
		sum += float64(lp)
	}
	return math.Exp(sum / float64(len(logProbs)))
}

// Format is how transcripts become tokens and outputs become calls and answers.
type Format interface {
	// Prompt is what the policy reads before its next output in the role; call is
	// the one that REHEARSE is to answer.
	Prompt(t *Transcript, role audit.PolicyRole, call audit.Call) ([]int32, error)
	ReadAct(o Output) Act
	ReadRehearsal(o Output) Rehearsed
	// Digest identifies how the format writes and reads: two with the same one make the
	// same tokens of a transcript.
	Digest() (audit.Digest, error)
}

// Transcript is a rollout so far, as the policy may see it.
type Transcript struct {
	Task   audit.Task
	Policy string // the environment's rules, as the agent is told them
	Memory string // of a private rehearsal; ACT alone reads it
	Tools  []audit.Tool
	Items  []Item
}

// Item is one thing that happened: exactly one of its parts is set.
type Item struct {
	User   string  // what the user said after the first prompt
	Act    *Act    // what ACT said
	Answer *Answer // what a call was answered
}

// Act is an ACT output as it was read.
type Act struct {
	Output   Output
	Thinking string       // what it thought before; REHEARSE does not see it
	Calls    []audit.Call // in order; none = a reply to the user
	Reply    string
	Fault    Fault
	Blocks   []Block // of calls, those that break the contract
}

// Answer is what one call was answered, by whichever world the rollout has.
type Answer struct {
	Call audit.Call
	Raw  []byte // as ACT reads it
	// Dropped says that the call was over Limits.ParallelCalls: it was refused, and no
	// world was asked.
	Dropped bool
	// Rehearsal is the output and its reading when REHEARSE answered; else nil.
	Rehearsal *Rehearsed
}

// Rehearsed is a REHEARSE output with its reading.
type Rehearsed struct {
	Output Output
	audit.Rehearsal
	Fault Fault
}

// History is what the transcript holds as earlier calls with their answers.
func (t *Transcript) History() []audit.Turn {
	var turns []audit.Turn
	for _, item := range t.Items {
		if item.Answer != nil {
			turns = append(turns, audit.Turn{Call: item.Answer.Call, Answer: item.Answer.Raw})
		}
	}
	return turns
}
