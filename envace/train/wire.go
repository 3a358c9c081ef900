package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"understudy/audit"
	"understudy/envace"
)

// A rollout travels as what was sampled and answered, no more: how it reads is
// computed again by the same format where it arrives. Log-probabilities are float32
// in Go's shortest decimal form, which reads back to the same bits.
type wireRollout struct {
	Stop    envace.Stop        `json:"stop"`
	Err     string             `json:"err,omitempty"`
	Dropped int                `json:"dropped,omitempty"`
	Check   *audit.CheckResult `json:"check,omitempty"`
	Items   []wireItem         `json:"items"`
}

// wireItem is an item of a transcript: exactly one of its parts is set.
type wireItem struct {
	User   *string     `json:"user,omitempty"`
	Act    *wireOutput `json:"act,omitempty"`
	Answer *wireAnswer `json:"answer,omitempty"`
}

type wireAnswer struct {
	Raw       []byte      `json:"raw,omitempty"`
	Role      string      `json:"role,omitempty"` // of the call, where the world gave it one
	Dropped   bool        `json:"dropped,omitempty"`
	Rehearsal *wireOutput `json:"rehearsal,omitempty"`
}

// wireOutput is an output whose prompt begins with Same tokens of the row before it:
// prompt and tokens of the output before, together.
type wireOutput struct {
	Same      int       `json:"same,omitempty"`
	Prompt    []int32   `json:"prompt,omitempty"` // the rest
	Tokens    []int32   `json:"tokens"`
	LogProbs  []float32 `json:"log_probs"`
	Text      string    `json:"text"`
	Truncated bool      `json:"truncated,omitempty"`
}

// maxWire bounds what a rollout may unpack to.
const maxWire = 256 << 20

// wireWriter packs outputs, each against the row before it.
type wireWriter struct{ row []int32 }

func (w *wireWriter) output(o *envace.Output) *wireOutput {
	same := 0
	for same < min(len(w.row), len(o.Prompt)) && w.row[same] == o.Prompt[same] {
		same++
	}
	w.row = append(append([]int32{}, o.Prompt...), o.Tokens...)
	return &wireOutput{Same: same, Prompt: o.Prompt[same:], Tokens: o.Tokens, LogProbs: o.LogProbs, Text: o.Text, Truncated: o.Truncated}
}

// packRollout is a trajectory in bytes.
func packRollout(t *envace.Trajectory) ([]byte, error) {
	wire, w := wireRollout{Stop: t.Stop, Dropped: t.Dropped, Check: t.Check, Items: make([]wireItem, len(t.Items))}, wireWriter{}
	if t.Err != nil {
		wire.Err = t.Err.Error()
	}
	for i := range t.Items {
		switch item := &t.Items[i]; {
		case item.Act != nil:
			wire.Items[i].Act = w.output(&item.Act.Output)
		case item.Answer != nil:
			answer := &wireAnswer{Raw: item.Answer.Raw, Role: item.Answer.Call.Role, Dropped: item.Answer.Dropped}
			if r := item.Answer.Rehearsal; r != nil {
				answer.Raw, answer.Rehearsal = nil, w.output(&r.Output)
			}
			wire.Items[i].Answer = answer
		default:
			wire.Items[i].User = &item.User
		}
	}
	text, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("encode a rollout: %w", err)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("compress a rollout: %w", err)
	}
	packed := encoder.EncodeAll(text, nil)
	return packed, encoder.Close()
}

// wireReader unpacks outputs in the order in which they were packed.
type wireReader struct{ row []int32 }

func (r *wireReader) output(w *wireOutput, role audit.PolicyRole) (envace.Output, error) {
	if w.Same < 0 || w.Same > len(r.row) || len(w.LogProbs) != len(w.Tokens) {
		return envace.Output{}, errors.New("an output does not fit the one before it")
	}
	prompt := append(append([]int32{}, r.row[:w.Same]...), w.Prompt...)
	r.row = append(append([]int32{}, prompt...), w.Tokens...)
	return envace.Output{Role: role, Prompt: prompt, Tokens: w.Tokens, LogProbs: w.LogProbs, Text: w.Text, Truncated: w.Truncated}, nil
}

// unpackRollout is the trajectory of packed bytes: head is what its transcript holds
// beside items, and the format reads the outputs.
func unpackRollout(packed []byte, head envace.Transcript, format envace.Format) (*envace.Trajectory, error) {
	decoder, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderMaxMemory(maxWire), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("unpack a rollout: %w", err)
	}
	defer decoder.Close()
	var wire wireRollout
	if err := json.NewDecoder(io.LimitReader(decoder, maxWire)).Decode(&wire); err != nil {
		return nil, fmt.Errorf("decode a rollout: %w", err)
	}
	t := &envace.Trajectory{Transcript: head, Stop: wire.Stop, Dropped: wire.Dropped, Check: wire.Check}
	if wire.Err != "" {
		t.Err = errors.New(wire.Err)
	}
	r, pending := wireReader{}, []audit.Call(nil)
	for i, w := range wire.Items {
		var item envace.Item
		switch {
		case w.Act != nil:
			output, err := r.output(w.Act, audit.ActRole)
			if err != nil {
				return nil, fmt.Errorf("item %d of a rollout: %w", i, err)
			}
			act := format.ReadAct(output)
			item.Act, pending = &act, act.Calls
		case w.Answer != nil:
			if len(pending) == 0 {
				return nil, fmt.Errorf("item %d of a rollout answers no call", i)
			}
			answer, err := r.answer(w.Answer, pending[0], format)
			if err != nil {
				return nil, fmt.Errorf("item %d of a rollout: %w", i, err)
			}
			item.Answer, pending = answer, pending[1:]
		case w.User != nil:
			item.User = *w.User
		default:
			return nil, fmt.Errorf("item %d of a rollout is empty", i)
		}
		t.Items = append(t.Items, item)
	}
	return t, nil
}

func (r *wireReader) answer(w *wireAnswer, call audit.Call, format envace.Format) (*envace.Answer, error) {
	call.Role = w.Role
	answer := &envace.Answer{Call: call, Raw: w.Raw, Dropped: w.Dropped}
	if w.Rehearsal == nil {
		return answer, nil
	}
	output, err := r.output(w.Rehearsal, audit.RehearseRole)
	if err != nil {
		return nil, err
	}
	read := format.ReadRehearsal(output)
	answer.Raw, answer.Rehearsal = read.Raw, &read
	return answer, nil
}
