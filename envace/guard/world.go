package guard

import (
	"context"
	"encoding/json"
	"fmt"

	"understudy/audit"
	"understudy/envace"
)

// Execution is one guarded run in a real environment: the source of a single world.
type Execution struct {
	Guard       *Guard
	Environment audit.Environment
	ID          string       // of the execution: what makes it once
	Start       audit.Start  // beside the task
	Evidence    Evidence     // of the rehearsals before it
	Rules       audit.Digest // by which Evidence was read, as audit.Rules.Written gives it
}

var _ envace.Source = Execution{}

// Open implements envace.Source. The world answers from the journal what an earlier
// process has done of this execution.
func (e Execution) Open(ctx context.Context, task audit.Task) (envace.World, error) {
	entries, err := e.Guard.Journal.Entries(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	w := &world{Execution: e}
	for _, entry := range entries {
		if entry.Phase == Done {
			return nil, &audit.Error{Code: audit.CodeConflict, Message: "execution " + e.ID + " is done", Hint: "its outcome is in the journal; give another id for another execution"}
		}
		if err := w.remember(entry); err != nil {
			return nil, err
		}
	}
	start := e.Start
	start.Task = task.ID
	if w.session, err = e.Environment.Open(ctx, start); err != nil {
		return nil, fmt.Errorf("open the environment of task %s: %w: %w", task.ID, envace.ErrWorld, err)
	}
	return w, nil
}

// Finish writes down that the execution has ended, and how: it cannot be opened again.
func (e Execution) Finish(ctx context.Context, outcome string) error {
	return e.Guard.Journal.Append(context.WithoutCancel(ctx), Entry{Time: e.Guard.Now(), Execution: e.ID, Phase: Done, Text: outcome, Rules: e.Rules})
}

// made is a call of the execution, as far as the journal knows.
type made struct {
	call     audit.Call
	decision Decision
	answered bool
	status   audit.Status
	raw      []byte
}

type world struct {
	Execution
	session audit.Session
	made    []made
	next    int
}

var _ envace.Executed = (*world)(nil)

// remember takes an entry that an earlier process, or a person, wrote.
func (w *world) remember(e Entry) error {
	switch {
	case e.Phase == Decided && e.Index == len(w.made) && e.Call != nil && e.Decision != nil:
		w.made = append(w.made, made{call: *e.Call, decision: *e.Decision})
	case e.Phase == Answered && e.Index >= 0 && e.Index < len(w.made):
		m := &w.made[e.Index]
		m.answered, m.status, m.raw = true, e.Status, e.raw()
	default:
		return &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("the journal of execution %s: phase %q of call %d fits nothing before it", e.Execution, e.Phase, e.Index),
			Hint: "calls are numbered from 0, each decided before it is answered: correct the journal, or restore it",
		}
	}
	return nil
}

// raw are the bytes of an entry's answer.
func (e *Entry) raw() []byte {
	if len(e.Answer) > 0 {
		return e.Answer
	}
	return []byte(e.Text)
}

// Answer implements envace.World.
func (w *world) Answer(ctx context.Context, t *envace.Transcript, call audit.Call, _ uint64) (envace.Answer, error) {
	index := w.next
	w.next++
	if index < len(w.made) {
		return w.again(ctx, index, call)
	}
	decision, raw, err := w.decided(ctx, t, call)
	if err != nil {
		return envace.Answer{}, err
	}
	m := made{call: call, decision: decision}
	entry := Entry{Time: w.Guard.Now(), Execution: w.ID, Index: index, Phase: Decided, Key: keyOf(w.ID, index, call), Call: &call, Decision: &decision, Rules: w.Rules}
	if err := w.Guard.Journal.Append(ctx, entry); err != nil {
		return envace.Answer{}, err
	}
	w.made = append(w.made, m)
	if !decision.Allowed {
		return w.record(ctx, index, audit.StatusRefused, raw)
	}
	return w.make(ctx, index)
}

// decided is the decision, and what ACT reads when it is no.
func (w *world) decided(ctx context.Context, t *envace.Transcript, call audit.Call) (Decision, []byte, error) {
	if first, found := w.sameWrite(call); found {
		return Decision{Check: CheckIdempotency, Reason: fmt.Sprintf("the same write succeeded as call %d: its answer again", first)}, w.made[first].raw, nil
	}
	decision, err := w.Guard.decide(ctx, call, t.History(), w.Evidence)
	if err != nil || decision.Allowed {
		return decision, nil, err
	}
	return decision, envace.Refusal(decision.Family, decision.Reason), nil
}

// succeeded says whether the call may have changed the world: an answer that a person
// wrote down need not have a status.
func (m made) succeeded() bool {
	return m.decision.Allowed && m.answered && m.status != audit.StatusRefused && m.status != audit.StatusInvalid
}

// sameWrite finds an earlier success of the same write.
func (w *world) sameWrite(call audit.Call) (int, bool) {
	if w.Guard.Repeats || !w.Guard.writes(call) {
		return 0, false
	}
	for i, m := range w.made {
		if m.succeeded() && audit.CallDigest(m.call) == audit.CallDigest(call) {
			return i, true
		}
	}
	return 0, false
}

// again answers a call that the journal knows.
func (w *world) again(ctx context.Context, index int, call audit.Call) (envace.Answer, error) {
	m := w.made[index]
	switch {
	case audit.CallDigest(m.call) != audit.CallDigest(call):
		return envace.Answer{}, &audit.Error{
			Code: audit.CodeConflict, Message: fmt.Sprintf("execution %s has made %s as call %d, and now wants %s", w.ID, m.call.Tool, index, call.Tool),
			Hint: "the policy is not the one that began it: finish by hand, or begin another execution",
		}
	case m.answered:
		return envace.Answer{Call: call, Raw: m.raw}, nil
	case !m.decision.Allowed: // the process ended before it was told
		raw := envace.Refusal(m.decision.Family, m.decision.Reason)
		if first, found := w.sameWrite(call); found {
			raw = w.made[first].raw
		}
		return w.record(ctx, index, audit.StatusRefused, raw)
	case w.Guard.writes(call):
		return envace.Answer{}, &audit.Error{
			Code: audit.CodeConflict, Message: fmt.Sprintf("call %d of execution %s, a write of %s, may have been made", index, w.ID, call.Tool),
			Hint: "look in the environment and write its answer into the journal (phase answered): it is not made again",
		}
	}
	return w.make(ctx, index)
}

// make makes a call that was decided.
func (w *world) make(ctx context.Context, index int) (envace.Answer, error) {
	call := w.made[index].call
	seen, err := w.session.Call(ctx, call)
	switch {
	case err != nil:
		return envace.Answer{}, fmt.Errorf("call %s: %w: %w", call.Tool, envace.ErrWorld, err)
	case seen.Status == audit.StatusFault || seen.Status == audit.StatusUnknown: // it may have happened: not answered
		return envace.Answer{}, fmt.Errorf("call %s: %w: %s", call.Tool, envace.ErrWorld, seen.Raw)
	}
	return w.record(ctx, index, seen.Status, seen.Raw)
}

// record keeps an answer before anybody acts on it, also when the caller gave up:
// the call was made.
func (w *world) record(ctx context.Context, index int, status audit.Status, raw []byte) (envace.Answer, error) {
	m := &w.made[index]
	entry := Entry{Time: w.Guard.Now(), Execution: w.ID, Index: index, Phase: Answered, Key: keyOf(w.ID, index, m.call), Status: status}
	if compact(raw) {
		entry.Answer = raw
	} else {
		entry.Text = string(raw)
	}
	if err := w.Guard.Journal.Append(context.WithoutCancel(ctx), entry); err != nil {
		return envace.Answer{}, err
	}
	m.answered, m.status, m.raw = true, status, raw
	return envace.Answer{Call: m.call, Raw: raw}, nil
}

// compact says whether JSON comes back from a file as it was written.
func compact(raw []byte) bool {
	text, err := json.Marshal(json.RawMessage(raw))
	return err == nil && string(text) == string(raw)
}

// Session implements envace.Executed.
func (w *world) Session() audit.Session { return w.session }

// Close implements envace.World.
func (w *world) Close() error { return w.session.Close() }
