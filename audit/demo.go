package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"understudy/audit/diff"
)

// Perturbation is one way in which a DemoRehearser spoils the truth.
type Perturbation string

// The perturbations.
const (
	Faithful      Perturbation = "faithful"       // the truth, with its effect
	WrongField    Perturbation = "wrong_field"    // one scalar of an ok answer is another
	WrongFamily   Perturbation = "wrong_family"   // an error of another family
	AlwaysOK      Perturbation = "always_ok"      // an ok answer, whatever the truth is
	AlwaysError   Perturbation = "always_error"   // not_found, whatever the truth is
	EchoArguments Perturbation = "echo_arguments" // the call's arguments as the answer
	SilentClaim   Perturbation = "silent_write"   // the true answer with an empty effect
	PhantomClaim  Perturbation = "phantom_write"  // the true answer with an invented effect
	Padded        Perturbation = "padded"         // the truth and invented fields
	Omitting      Perturbation = "omitting"       // the truth without its first fields
	Garbled       Perturbation = "garbled"        // the truth, cut in the middle
)

// Share is how often a perturbation is used.
type Share struct {
	Perturbation Perturbation
	Weight       float64
}

// DemoRehearser rehearses by looking at the truth and spoiling it, from a seed.
// It is for tests and for the demo only, and stands for no policy: a rehearser
// under audit never sees the sandbox.
type DemoRehearser struct {
	env    Environment
	start  Start
	seed   uint64
	shares []Share
}

var _ Rehearser = (*DemoRehearser)(nil)

// NewDemoRehearser spoils what env answers from a start. Each call is spoiled in
// one of the ways, chosen by the seed and the call's place alone.
func NewDemoRehearser(env Environment, start Start, seed uint64, shares ...Share) *DemoRehearser {
	if len(shares) == 0 {
		shares = []Share{{Faithful, 1}}
	}
	return &DemoRehearser{env: env, start: start, seed: seed, shares: shares}
}

// Rehearse replays the history in a session of its own and spoils the answer.
func (d *DemoRehearser) Rehearse(ctx context.Context, req RehearseRequest) ([]Rehearsal, error) {
	session, err := d.env.Open(ctx, d.start)
	if err != nil {
		return nil, fmt.Errorf("open the demo rehearser's world: %w", err)
	}
	defer session.Close()
	place := Digest{}
	for _, turn := range req.History {
		if _, err := session.Call(ctx, turn.Call); err != nil {
			return nil, fmt.Errorf("replay %s: %w", turn.Call.Tool, err)
		}
		place = extend(place, CallDigest(turn.Call))
	}
	truth, err := session.Call(ctx, req.Call)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", req.Call.Tool, err)
	}
	place = extend(place, CallDigest(req.Call))
	answers := make([]Rehearsal, max(req.K, 1))
	for i := range answers {
		answers[i] = d.spoil(place, uint64(i), req.Call, &truth)
	}
	return answers, nil
}

// Fill brings along a rehearsal for every action of an episode that has none,
// by running the episode once in a session of its own.
func (d *DemoRehearser) Fill(ctx context.Context, ep *Episode) error {
	session, err := d.env.Open(ctx, ep.Start)
	if err != nil {
		return fmt.Errorf("open the demo rehearser's world: %w", err)
	}
	defer session.Close()
	place := Digest(sha256.Sum256([]byte(ep.ID)))
	for i := range ep.Actions {
		action := &ep.Actions[i]
		truth, err := session.Call(ctx, action.Call)
		if err != nil {
			return fmt.Errorf("look at %s: %w", action.Call.Tool, err)
		}
		place = extend(place, CallDigest(action.Call))
		if action.Rehearsal == nil && !action.Replay && !action.Foreign {
			action.Rehearsal = new(d.spoil(place, uint64(action.Sample), action.Call, &truth))
		}
	}
	return nil
}

// dice are numbers that depend on the seed and the place alone.
type dice struct{ state [32]byte }

func (d *DemoRehearser) dice(place Digest, sample uint64) *dice {
	b := binary.BigEndian.AppendUint64(append([]byte(nil), place[:]...), d.seed)
	return &dice{sha256.Sum256(binary.BigEndian.AppendUint64(b, sample))}
}

// roll is a number in [0,1).
func (d *dice) roll() float64 {
	d.state = sha256.Sum256(d.state[:])
	return float64(binary.BigEndian.Uint64(d.state[:])>>11) / (1 << 53)
}

func (d *DemoRehearser) choose(roll float64) Perturbation {
	total := 0.0
	for _, s := range d.shares {
		total += s.Weight
	}
	at := roll * total
	for _, s := range d.shares {
		if at -= s.Weight; at < 0 {
			return s.Perturbation
		}
	}
	return d.shares[len(d.shares)-1].Perturbation
}

// spoil makes a rehearsal of the truth. Its confidence is an honest guess: high
// for the truth, lower for what is spoiled.
func (d *DemoRehearser) spoil(place Digest, sample uint64, call Call, truth *Observation) Rehearsal {
	dice := d.dice(place, sample)
	how := d.choose(dice.roll())
	r := Rehearsal{Raw: slices.Clone(truth.Raw), Confidence: new(0.45 + 0.4*dice.roll())}
	if truth.Delta != nil {
		r.StateDelta, _ = json.Marshal(truth.Delta) // raw JSON that was decoded before
	}
	body, err := diff.Decode(truth.Raw, diff.Limits{})
	isError := truth.Status != StatusOK
	switch how {
	case Faithful:
		r.Confidence = new(0.7 + 0.3*dice.roll())
	case WrongField:
		if err == nil && !isError {
			r.Raw = spoilField(body, int(dice.roll()*float64(body.Leaves())))
		}
	case WrongFamily:
		if isError {
			family := Conflict
			if truth.Error != nil && truth.Error.Family == Conflict {
				family = NotFound
			}
			r.Raw = errorBody(family)
		}
	case AlwaysOK:
		if isError {
			r.Raw, r.StateDelta = []byte(`{"success":true}`), nil
		}
	case AlwaysError:
		r.Raw, r.StateDelta = errorBody(NotFound), nil
	case EchoArguments:
		r.Raw, r.StateDelta = slices.Clone(call.Arguments), nil
	case SilentClaim:
		r.StateDelta = json.RawMessage("[]")
	case PhantomClaim:
		r.StateDelta = json.RawMessage(`[{"op":"replace","path":"/invented","value":1}]`)
	case Padded:
		if err == nil && body.Type() == diff.TypeObject && !isError {
			r.Raw = append(body.JSON()[:len(body.JSON())-1], []byte(`,"padding":{"a":1,"b":"two","c":true}}`)...)
		}
	case Omitting:
		if err == nil && body.Type() == diff.TypeObject && !isError {
			r.Raw = withoutFirstHalf(body)
		}
	case Garbled:
		r.Raw = r.Raw[:len(r.Raw)/2]
	}
	return r
}

func errorBody(family Family) []byte {
	return []byte(`{"error":{"code":"` + string(family) + `","message":"rehearsed refusal"}}`)
}

// spoilField replaces the n-th leaf by another value of its type.
func spoilField(body diff.Value, n int) []byte {
	i := 0
	var spoil func(b []byte, v diff.Value) []byte
	spoil = func(b []byte, v diff.Value) []byte {
		if v.Len() > 0 {
			return appendContainer(b, v, spoil)
		}
		i++
		if i-1 != n {
			return v.AppendJSON(b)
		}
		switch v.Type() {
		case diff.TypeNumber:
			return append(append(b, v.Text()...), "1"...) // another digit
		case diff.TypeBool:
			return fmt.Appendf(b, "%t", !v.Bool())
		case diff.TypeString:
			return append(b, appendJSONString(nil, v.Text()+" (changed)")...)
		case diff.TypeAbsent, diff.TypeNull, diff.TypeArray, diff.TypeObject:
		}
		return append(b, `"changed"`...)
	}
	return spoil(nil, body)
}

// appendContainer appends a container whose children are written by each.
func appendContainer(b []byte, v diff.Value, each func([]byte, diff.Value) []byte) []byte {
	open, end := byte('['), byte(']')
	if v.Type() == diff.TypeObject {
		open, end = '{', '}'
	}
	b = append(b, open)
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		kid := v.At(i)
		if v.Type() == diff.TypeObject {
			b = append(appendJSONString(b, kid.Name()), ':')
		}
		b = each(b, kid)
	}
	return append(b, end)
}

func withoutFirstHalf(v diff.Value) []byte {
	b := []byte{'{'}
	for i := v.Len() / 2; i < v.Len(); i++ {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, v.At(i).Name()), ':')
		b = v.At(i).AppendJSON(b)
	}
	return append(b, '}')
}
