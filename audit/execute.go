package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"understudy/audit/diff"
)

// announce draws every action of an episode against its π and says so before
// anything is executed.
func (a *Auditor) announce(ctx context.Context, at *Place, steps []Planned) error {
	if a.config.Inclusion == nil && a.config.Announce == nil {
		return nil
	}
	trail := at.trail
	var draws []Draw
	for i := range steps {
		s := &steps[i]
		if s.done {
			continue
		}
		if !s.replay {
			draws = append(draws, at.draw(s, trail)...)
		}
		trail = extend(trail, s.digest)
	}
	if a.config.Announce == nil || len(draws) == 0 {
		return nil
	}
	return a.config.Announce(ctx, draws)
}

// draw decides which rehearsals of an action are audited. A π that the action
// brings along was decided by the caller, who sent it because it was drawn.
func (at *Place) draw(s *Planned, trail Digest) []Draw {
	tool := at.tool(s.call.Tool)
	here := *at
	here.trail = trail
	draws := make([]Draw, len(s.samples))
	s.draws = make([]bool, len(s.samples))
	for i := range s.samples {
		action := &s.samples[i]
		key := here.pair(*action, s.digest, tool.Effect).Key
		pi := 1.0
		switch {
		case action.Inclusion > 0:
			draws[i] = Draw{Key: key, Inclusion: clipInclusion(action.Inclusion)}
			s.draws[i] = true
			continue
		case at.auditor.config.Inclusion != nil:
			pi = clipInclusion(at.auditor.config.Inclusion(tool, action))
		}
		action.Inclusion = pi
		draws[i] = draw(at.auditor.config.Secret, key, pi)
		s.draws[i] = draws[i].Included()
	}
	return draws
}

// rehearse begins to collect the rehearsals of an action: those that it brought
// along, and for the rest what the rehearser answers. The function that it
// returns waits for them and must be called.
func (a *Auditor) rehearse(ctx context.Context, at *Place, action *Planned) func() ([]Rehearsal, error) {
	answers := make([]Rehearsal, len(action.samples))
	var open []int
	for i := range action.samples {
		switch r := action.samples[i].Rehearsal; {
		case r != nil:
			answers[i] = *r
		case action.draws != nil && !action.draws[i]:
		default:
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return func() ([]Rehearsal, error) { return answers, nil }
	}
	history := at.shown()
	done := make(chan error, 1)
	go func() {
		asked, err := a.ask(ctx, at, history, action.call, action.samples[open[0]].Prompt, len(open))
		for k, i := range open {
			answers[i] = asked[k]
		}
		done <- err
	}()
	return func() ([]Rehearsal, error) { return answers, <-done }
}

// ask has the rehearser answer a call n times. There are always n answers: what
// the rehearser fails to give is unavailable.
func (a *Auditor) ask(ctx context.Context, at *Place, history []Turn, call Call, prompt []byte, n int) ([]Rehearsal, error) {
	answers := make([]Rehearsal, n)
	unavailable := func(reason string) {
		for i := range answers {
			answers[i] = Rehearsal{Unavailable: reason}
		}
	}
	if a.config.Rehearser == nil {
		unavailable("the episode brings no rehearsal along and there is no rehearser")
		return answers, nil
	}
	timed, cancel := context.WithTimeout(ctx, a.config.RehearseTimeout)
	defer cancel()
	var got []Rehearsal
	err := contain("the rehearser", func() (err error) {
		got, err = a.config.Rehearser.Rehearse(timed, RehearseRequest{
			Tools: at.tools, Tool: at.tool(call.Tool), History: history, Call: call, Prompt: prompt, K: n, Seed: a.config.Seed,
		})
		return err
	})
	if ctx.Err() != nil {
		return answers, context.Cause(ctx)
	}
	if err != nil {
		unavailable(err.Error())
		return answers, nil
	}
	unavailable(fmt.Sprintf("the rehearser gave %d answers of %d", len(got), n))
	copy(answers, got)
	agree(answers, at.rules.limits)
	return answers, nil
}

// agree notes for each of several rehearsals which share of the others says the same.
func agree(answers []Rehearsal, limits diff.Limits) {
	if len(answers) < 2 {
		return
	}
	for i := range answers {
		same, others := 0, 0
		for j := range answers {
			if i == j || answers[j].Unavailable != "" {
				continue
			}
			others++
			if sameAnswer(answers[i].Raw, answers[j].Raw, limits) {
				same++
			}
		}
		if answers[i].Unavailable == "" && others > 0 && answers[i].Agreement == nil {
			answers[i].Agreement = new(float64(same) / float64(others))
		}
	}
}

// execute runs an action in the sandbox, and in its twin while that does as the
// sandbox does. In an open episode the rehearsed ids of its arguments become the
// real ones first.
func (at *Place) execute(ctx context.Context, action *Planned) (sighting, error) {
	if at.session == nil {
		return at.recorded(action), nil
	}
	call, translated := at.translate(action.call)
	session := at.session
	if action.samples[0].Foreign && at.foreign != nil {
		session = at.foreign
	}
	before, err := at.look(ctx, call)
	if err != nil {
		return sighting{}, err
	}
	seen, err := at.observe(ctx, session, call)
	seen.before = before
	if translated {
		seen.flags = append(seen.flags, FlagTranslated)
	}
	if err != nil || at.twin == nil || at.apart || seen.mask != "" {
		return seen, err
	}
	twin, err := at.observe(ctx, at.twin, call)
	seen.twin = twin.observation
	at.apart = twin.mask != "" || twin.observation == nil || twin.observation.Status != seen.observation.Status
	return seen, err
}

// observe makes one call. A time-out and a sandbox that does not answer mask the
// pair, one that panics also what follows, for its world may be half written; the
// error is only for a cancelled context.
func (at *Place) observe(ctx context.Context, session Session, call Call) (sighting, error) {
	var observation Observation
	err := at.meter.run(ctx, at.auditor.config.CallTimeout, func(ctx context.Context) error {
		return contain("the sandbox", func() (err error) {
			observation, err = session.Call(ctx, call)
			return err
		})
	})
	_, panicked := errors.AsType[*panicError](err)
	switch {
	case err == nil:
	case errors.Is(err, errOverBudget):
		at.stop(MaskOverBudget, err.Error())
		return sighting{mask: MaskOverBudget, detail: err.Error()}, nil
	case panicked:
		at.stop(MaskSandboxFault, err.Error())
		return sighting{mask: MaskSandboxFault, detail: err.Error()}, nil
	case ctx.Err() != nil:
		return sighting{}, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return sighting{mask: MaskSandboxUnknown, detail: "no answer within " + at.auditor.config.CallTimeout.Round(time.Millisecond).String()}, nil
	default:
		return sighting{mask: MaskSandboxUnavailable, detail: err.Error()}, nil
	}
	seen := sighting{observation: &observation, state: at.stateBefore(ctx, session, observation.Delta)}
	switch observation.Status {
	case StatusFault:
		seen.mask, seen.detail = MaskSandboxFault, observation.message()
	case StatusUnknown:
		seen.mask, seen.detail = MaskSandboxUnknown, observation.message()
	case StatusOK, StatusRefused, StatusInvalid:
	default:
		seen.mask, seen.detail = MaskSandboxFault, "the sandbox gave the status "+string(observation.Status)
	}
	return seen, nil
}

func (o *Observation) message() string {
	if o.Error != nil {
		return o.Error.Message
	}
	return ""
}

// stateBefore reads state cells as they were before a call: what the call
// replaced, else what is there now.
func (at *Place) stateBefore(ctx context.Context, session Session, delta diff.Patch) StateFunc {
	stater, ok := session.(Stater)
	if !ok || !slices.Contains(at.info.Capabilities, CanState) {
		return nil
	}
	return func(pointer string) (diff.Value, bool) {
		if old, touched := valueBefore(delta, pointer); touched {
			return old, true
		}
		text, err := stater.State(ctx, pointer)
		if err != nil {
			return diff.Value{}, ErrorCode(err) == CodeNotFound
		}
		value, err := diff.Decode(text, diff.Limits{})
		return value, err == nil
	}
}

// recorded takes the answer that the source recorded for the truth: all there is
// without a sandbox. A body that was cut in recording proves nothing.
func (at *Place) recorded(action *Planned) sighting {
	first := &action.samples[0]
	if first.Recorded == nil {
		return sighting{mask: MaskSandboxUnavailable, detail: "the episode names no environment and recorded no answer"}
	}
	rules := at.rules.Of(action.call.Tool)
	answer := rules.Read(first.Recorded.Raw)
	if answer.Decode == diff.ClassTruncated || answer.Decode == diff.ClassEncoding {
		return sighting{mask: MaskCapture, detail: "the recorded answer is cut: " + answer.Message}
	}
	o := Observation{Status: StatusOK, Raw: first.Recorded.Raw, Evidence: EvidenceResponse}
	failed := answer.Outcome.IsError()
	if first.Recorded.Failed != nil {
		failed = *first.Recorded.Failed
	}
	if failed {
		family := answer.Outcome.Family
		if !answer.Outcome.IsError() {
			family = rules.inference.Text(answer.Body.Text())
		}
		o.Status, o.Error = StatusRefused, &CallError{Family: family, Message: answer.Message}
	}
	return sighting{observation: &o}
}
