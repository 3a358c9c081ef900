package tiny

import (
	"fmt"

	"understudy/audit"
	"understudy/envace"
)

// Format is how transcripts become tokens and outputs become calls and answers.
type Format struct{ Vocabulary *Vocabulary }

var _ envace.Format = Format{}

// Prompt is the tokens of the transcript, and the role that goes on. What was
// sampled stands in it as it was sampled, never as it would be written.
func (f Format) Prompt(t *envace.Transcript, role audit.PolicyRole, _ audit.Call) ([]int32, error) {
	v := f.Vocabulary
	ids := v.Encode(promptWords(t.Task.Prompt))
	if t.Memory != "" && role == audit.ActRole {
		ids = append(ids, v.Encode(promptWords("\n"+t.Memory))...)
	}
	for _, item := range t.Items {
		switch {
		case item.Act != nil && item.Act.Output.Tokens != nil:
			ids = append(append(ids, v.ID(wordAct)), item.Act.Output.Tokens...)
		case item.Act != nil: // somebody else's, such as a recording's
			ids = append(append(append(ids, v.ID(wordAct)), f.spoken(item.Act)...), v.End())
		case item.Answer != nil && item.Answer.Rehearsal != nil:
			ids = append(append(ids, v.ID(wordRehearse)), item.Answer.Rehearsal.Output.Tokens...)
		case item.Answer != nil:
			ids = append(append(append(ids, v.ID(wordRehearse)), f.AnswerTokens(item.Answer.Raw)...), v.End())
		default:
			ids = append(ids, v.Encode(promptWords("\n"+item.User))...)
		}
	}
	return append(ids, f.roleToken(role)), nil
}

// spoken are the tokens of an ACT output that no policy of this language made; what
// cannot be said is <unknown>.
func (f Format) spoken(act *envace.Act) []int32 {
	if len(act.Calls) == 0 {
		return f.Vocabulary.Encode([]string{wordDone})
	}
	tokens, err := f.CallTokens(act.Calls[0])
	if err != nil {
		tokens = f.Vocabulary.Encode([]string{act.Calls[0].Tool, wordUnknown})
	}
	return tokens
}

func (f Format) roleToken(role audit.PolicyRole) int32 {
	if role == audit.RehearseRole {
		return f.Vocabulary.ID(wordRehearse)
	}
	return f.Vocabulary.ID(wordAct)
}

// AnswerTokens are the tokens of an answer's JSON, without the end; an answer that
// cannot be said is the error "unparseable".
func (f Format) AnswerTokens(raw []byte) []int32 {
	words, err := jsonWords(raw)
	if err != nil {
		words = []string{"{", "error", "{", "code", string(audit.Unparseable), "}", "}"}
	}
	return f.Vocabulary.Encode(words)
}

// CallTokens are the tokens of a call, without the end.
func (f Format) CallTokens(call audit.Call) ([]int32, error) {
	words, err := jsonWords(call.Arguments)
	if err != nil {
		return nil, fmt.Errorf("write a call of %s: %w", call.Tool, err)
	}
	return f.Vocabulary.Encode(append([]string{call.Tool}, words...)), nil
}

// DoneTokens are the tokens of ACT's last reply, with the end.
func (f Format) DoneTokens() []int32 {
	return []int32{f.Vocabulary.ID(wordDone), f.Vocabulary.End()}
}

// words are those of an output, without its end.
func (f Format) words(o envace.Output) []string {
	words := f.Vocabulary.Decode(o.Tokens)
	if n := len(words); n > 0 && words[n-1] == wordEnd {
		words = words[:n-1]
	}
	return words
}

// ReadAct reads an ACT output: one call, or "done".
func (f Format) ReadAct(o envace.Output) envace.Act {
	act := envace.Act{Output: o}
	words := f.words(o)
	switch {
	case len(words) == 0:
		act.Fault = envace.FaultEmpty
	case len(words) == 1 && words[0] == wordDone:
		act.Reply = wordDone
	default:
		arguments, rest, err := wordsJSON(words[1:])
		if err != nil || len(rest) > 0 {
			act.Fault = envace.FaultMalformed
			break
		}
		act.Calls = []audit.Call{{Tool: words[0], Arguments: arguments}}
	}
	return act
}

// ReadRehearsal reads a REHEARSE output: one JSON value. Its confidence is the
// probability of its tokens, the geometric mean.
func (f Format) ReadRehearsal(o envace.Output) envace.Rehearsed {
	r := envace.Rehearsed{Output: o}
	words := f.words(o)
	value, rest, err := wordsJSON(words)
	switch {
	case len(words) == 0:
		r.Fault = envace.FaultEmpty
	case err != nil:
		r.Fault = envace.FaultMalformed
	case len(rest) > 0:
		r.Fault = envace.FaultSeveral
	}
	r.Raw = value
	if r.Fault == envace.FaultMalformed {
		r.Raw = fmt.Append(nil, words) // no JSON, and judged as that
	}
	r.Truncated = o.Truncated
	r.Tokens, r.LogProbs = o.Tokens, o.LogProbs
	if len(o.LogProbs) > 0 {
		r.Confidence = new(envace.MeanProbability(o.LogProbs))
	}
	return r
}

// Digest implements envace.Format.
func (f Format) Digest() (audit.Digest, error) { return f.Vocabulary.Digest(), nil }
