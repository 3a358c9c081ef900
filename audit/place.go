package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"understudy/audit/diff"
)

// Place is where in an episode the next action is audited: sandbox sessions in
// the exact pre-state, the history that REHEARSE is shown, and what earlier
// pairs decided. It belongs to one goroutine.
type Place struct {
	auditor *Auditor
	episode *Episode
	env     Environment // nil: there is none, or it does not answer
	rules   *Rules
	info    EnvironmentInfo
	tools   []Tool
	meter   *meter // of the sandbox's time; nil = unbounded

	policy  Digest
	prompt  Digest  // of actions without messages of their own
	session Session // nil: the reference answers are the recorded ones
	twin    Session // second copy of the world, nil where the environment is deterministic
	apart   bool    // the twin's state is another one by now: what differs is no noise any more
	foreign Session // somebody else on the same shared state
	initial Digest  // of the start
	trail   Digest  // of the calls so far
	said    Digest  // of the calls and the rehearsed answers so far
	history []Turn
	ids     *diff.Bijection // rehearsed ids to real ones, of an open episode

	forked bool       // an earlier answer was S3 or worse
	mask   MaskReason // from here on nothing can be judged
	detail string
	held   bool // every action so far was executed: terminal checks are about this episode
}

// sighting is what the sandbox showed of one call.
type sighting struct {
	observation *Observation
	twin        *Observation
	state       StateFunc // before the call
	before      []read    // the probes' answers before the call
	claim       *claim    // by probes
	reads       cells     // what the probes saw change
	mask        MaskReason
	detail      string
	flags       []string
}

// open brings an episode's place to its first action.
func (a *Auditor) open(ctx context.Context, ep *Episode, steps []Planned) (*Place, error) {
	at, err := a.place(ctx, ep)
	if err != nil || at.env == nil || at.mask != "" {
		return at, err
	}
	err = a.begin(ctx, func(ctx context.Context) error { return at.openSessions(ctx, steps) })
	if err != nil {
		at.close()
		return at.unavailable(ctx, ep.Environment, err)
	}
	return at, nil
}

// place is where an episode begins, before any session is open.
func (a *Auditor) place(ctx context.Context, ep *Episode) (*Place, error) {
	initial, err := startDigest(ep.Start)
	if err != nil {
		return nil, err
	}
	at := &Place{
		auditor: a, episode: ep, ids: &diff.Bijection{}, held: true,
		policy: policyDigest(ep), prompt: promptDigest(ep, nil), initial: initial,
	}
	if a.config.Budget > 0 {
		at.meter = newMeter(a.config.Budget)
	}
	if ep.Environment == "" {
		at.rules = a.rulesOf("")
		return at, nil
	}
	if a.config.Opener == nil {
		return nil, &Error{Code: CodeInvalid, Message: "no environments to find " + strconv.Quote(ep.Environment) + " among", Hint: "configure an opener"}
	}
	env, err := a.config.Opener.Environment(ctx, ep.Environment)
	if err != nil {
		return at.unavailable(ctx, ep.Environment, err)
	}
	at.info = env.Info()
	at.rules = a.rulesOf(at.info.Name)
	err = a.begin(ctx, func(ctx context.Context) (err error) {
		at.tools, err = env.Tools(ctx)
		return err
	})
	if err != nil {
		return at.unavailable(ctx, ep.Environment, err)
	}
	at.env = env
	return at, nil
}

// begin bounds what an environment does before an episode's first call.
func (a *Auditor) begin(ctx context.Context, work func(ctx context.Context) error) error {
	timed, cancel := context.WithTimeout(ctx, a.config.OpenTimeout)
	defer cancel()
	err := work(timed)
	if err != nil && ctx.Err() == nil && timed.Err() != nil {
		return &Error{
			Code: CodeInfrastructure, Message: "the environment did not begin within " + a.config.OpenTimeout.String(), Err: err,
			Hint: "see what its server waits for",
		}
	}
	return err
}

// unavailable masks an episode whose environment does not answer. What is the
// caller's fault (an unknown name, an impossible start) stays an error.
func (at *Place) unavailable(ctx context.Context, name string, err error) (*Place, error) {
	switch ErrorCode(err) {
	case CodeInvalid, CodeNotFound, CodeConflict, CodeLimit, CodeUnprocessable:
		return nil, err
	case CodeUnauthorized, CodeForbidden, CodeInfrastructure, CodeInternal, CodeBusy:
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	at.session, at.twin, at.foreign = nil, nil, nil
	at.info.Name = name
	if at.rules == nil {
		at.rules = at.auditor.rulesOf(name)
	}
	at.stop(MaskSandboxUnavailable, err.Error())
	return at, nil
}

// openSessions resumes a kept session of the same prefix, or opens new ones.
func (at *Place) openSessions(ctx context.Context, steps []Planned) error {
	env, start := at.env, at.episode.Start
	shared := start.Shared != ""
	if shared {
		start.Shared += "#" + strconv.FormatInt(at.auditor.sessions.shares.Add(1), 10) // two audits of one episode must not meet
	}
	twins := !at.info.Deterministic && !at.auditor.config.NoTwins && !shared
	if !shared && !twins && at.resume(steps) {
		return nil
	}
	var err error
	if at.session, err = env.Open(ctx, start); err != nil {
		return err
	}
	if shared {
		at.foreign, err = env.Open(ctx, start)
		return err
	}
	if !twins {
		return nil
	}
	other := start // another clock and another seed: what differs now is noise
	other.Seed ^= 0x9E3779B97F4A7C15
	if !other.Clock.IsZero() {
		other.Clock = other.Clock.AddDate(0, 0, 1)
	}
	at.twin, err = env.Open(ctx, other)
	return err
}

// stop masks everything from here on.
func (at *Place) stop(reason MaskReason, detail string) {
	if at.mask == "" {
		at.mask, at.detail = reason, detail
	}
	at.held = false
}

// tool finds the declaration of a tool; one that the environment lacks has an
// unknown effect.
func (at *Place) tool(name string) Tool {
	for i := range at.tools {
		if at.tools[i].Name == name {
			return at.tools[i]
		}
	}
	return Tool{Name: name, Effect: UnknownEffect}
}

// skip deals with an action that is not judged: one that only leads to a later
// state, one that cannot be judged any more, one that was not drawn. The state
// behind it is reached all the same where that is possible.
func (at *Place) skip(ctx context.Context, action *Planned, pairs []Pair) (bool, error) {
	if action.done {
		return true, nil
	}
	reason, detail := at.mask, at.detail
	switch {
	case reason != "":
	case action.mask != "":
		reason, detail = action.mask, action.detail
	case action.replay:
	case !action.drawn():
		reason = MaskNotSampled
	default:
		return false, nil
	}
	for i := range pairs {
		pairs[i].Verdict.mask(reason, detail)
	}
	if reason == MaskHistory {
		at.stop(reason, detail)
	}
	if at.mask != "" {
		at.trail = extend(at.trail, action.digest) // what comes later keeps its key
		return true, nil
	}
	seen, err := at.execute(ctx, action)
	if err != nil {
		return true, fmt.Errorf("reach step %d of episode %s: %w", action.Step()+1, at.episode.ID, err)
	}
	at.advance(action, nil, &seen)
	return true, nil
}

// advance moves the place behind an action that was executed.
func (at *Place) advance(action *Planned, pairs []Pair, seen *sighting) {
	first := &action.samples[0]
	said := Rehearsal{}
	if seen.observation != nil {
		said.Raw = seen.observation.Raw
	}
	if at.episode.Mode == Open {
		if len(pairs) > 0 {
			first = &pairs[0].Action
		}
		at.fork(pairs)
		if len(pairs) == 0 || pairs[0].Verdict.Masked == MaskNotSampled {
			at.follow(first, action.digest, seen)
		}
		if first.Rehearsal != nil && first.Rehearsal.Unavailable == "" {
			said = *first.Rehearsal
		}
	}
	at.trail, at.said = extend(at.trail, action.digest), say(at.said, action.digest, &said)
	if !first.Foreign {
		at.history = append(at.history, Turn{Call: action.call, Answer: said.Raw})
	}
	if seen.mask == MaskSandboxUnknown {
		at.stop(MaskHistory, "step "+itoa(action.Step())+" timed out: it may have happened")
	}
	if seen.mask == MaskSandboxUnavailable && at.session != nil {
		at.stop(seen.mask, seen.detail)
	}
}

// follow compares what was rehearsed of an action that is not audited, and keeps
// no verdict: the rehearsed world of an open episode goes on from it all the same,
// with the ids that it names, and may fork there.
func (at *Place) follow(first *Action, call Digest, seen *sighting) {
	if first.Rehearsal == nil || first.Foreign {
		return
	}
	pair := []Pair{at.pair(*first, call, at.tool(first.Call.Tool).Effect)}
	at.judge(pair, []Rehearsal{*first.Rehearsal}, seen)
	at.fork(pair)
}

// fork marks the first material divergence of an open episode; what comes after
// it is cascaded: the rehearsed world is another one by then.
func (at *Place) fork(pairs []Pair) {
	diverged := false
	for i := range pairs {
		v := &pairs[i].Verdict
		if !v.Scored() {
			continue
		}
		v.Cascaded = at.forked
		v.Fork = !at.forked && v.Severity >= S3
		diverged = diverged || (i == 0 && v.Fork)
	}
	at.forked = at.forked || diverged
}

// finish evaluates the terminal checks where every action was executed.
func (at *Place) finish(ctx context.Context, pairs []Pair) error {
	checker, ok := at.session.(Checker)
	if !ok || !at.held || at.mask != "" || at.episode.Start.Task == "" || at.episode.Mode == Canary ||
		!slices.Contains(at.info.Capabilities, CanCheck) {
		at.keep()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, at.auditor.config.CallTimeout)
	defer cancel()
	result, err := checker.Check(ctx, at.episode.Start.Task)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return context.Cause(ctx)
		}
		return nil // no terminal success is known: the figures that need it do without this episode
	}
	for i := range pairs {
		pairs[i].Executed = new(result.Success())
	}
	at.keep()
	return nil
}

// close ends the sessions that nobody keeps.
func (at *Place) close() {
	for _, s := range []Session{at.session, at.twin, at.foreign} {
		if s != nil {
			_ = s.Close() // nothing of it is needed any more
		}
	}
}

// shown copies the answers that REHEARSE may see.
func (at *Place) shown() []Turn { return slices.Clone(at.history) }
