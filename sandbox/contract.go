package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
)

// Report is the outcome of a contract test, with a table for people.
type Report audit.Contract

// The verdicts of a finding.
const (
	Pass          = audit.ClausePass
	Fail          = audit.ClauseFail
	NotApplicable = audit.ClauseNotApplicable
)

// OK reports whether nothing failed.
func (r Report) OK() bool { return audit.Contract(r).OK() }

// Table is the report for people.
func (r Report) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%s  %.12s\n", r.Environment.Name, r.Environment.Version, r.Environment.Digest)
	width := 0
	for _, f := range r.Findings {
		width = max(width, len(f.Name))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "  %-4s  %-*s  %s\n", f.Verdict, width, f.Name, f.Seen)
	}
	for _, n := range r.Noise {
		fmt.Fprintf(&b, "  noise %s %s: %d of %d runs disagree\n", n.Tool, n.Pattern, n.Disagree, n.Twins)
	}
	if r.Jail != "" {
		fmt.Fprintf(&b, "  jail  %s\n", r.Jail)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  note  %s\n", n)
	}
	return b.String()
}

// errNotApplicable is returned by a clause that the environment has no capability for.
var errNotApplicable = errors.New("not applicable")

// Contract tests what an auditor relies on, on a live environment: isolation,
// determinism, exact effects, errors that can be told apart. It makes calls that
// the environment's own tasks prove to be possible; writes are calls of tasks'
// solutions. The error is only for an environment that cannot be used at all.
func Contract(ctx context.Context, env audit.Environment) (Report, error) {
	c, err := newContract(ctx, env)
	if err != nil {
		return Report{}, err
	}
	report := Report{Environment: env.Info(), Tools: len(c.tools)}
	for _, clause := range []struct {
		name string
		test func(context.Context) (string, error)
	}{
		{"a second identical run agrees", c.secondRun},
		{"same seed, same world", c.sameSeed},
		{"different seed, different world", c.differentSeed},
		{"a write can be read", c.writeThenRead},
		{"a read leaves no trace", c.readOnly},
		{"the delta explains the change", c.deltaExplains},
		{"sessions are isolated", c.isolated},
		{"shared sessions see each other", c.shared},
		{"forks are isolated", c.forks},
		{"a restored snapshot is the same", c.snapshots},
		{"a dry run tells the truth, and leaves none", c.dryRun},
		{"unknown tools and bad arguments are told apart", c.invalid},
		{"a refusal has a family and no effect", c.refusal},
		{"tasks are solvable and not yet solved", c.solvable},
	} {
		seen, err := clause.test(ctx)
		f := audit.Clause{Name: clause.name, Verdict: Pass, Seen: seen}
		switch {
		case errors.Is(err, errNotApplicable):
			f.Verdict, f.Seen = NotApplicable, strings.TrimSuffix(err.Error(), ": "+errNotApplicable.Error())
		case ctx.Err() != nil:
			return report, fmt.Errorf("contract of %s: %w", env.Info().Name, ctx.Err())
		case err != nil:
			f.Verdict, f.Seen = Fail, err.Error()
		}
		report.Findings = append(report.Findings, f)
	}
	report.Noise = c.noise
	if c.write < 0 {
		report.Notes = append(report.Notes, "little could be tried: declare the effect of each tool (read or write), "+
			"and a task whose solution makes a call that writes")
	}
	if err := report.describe(ctx, env); err != nil {
		return report, err
	}
	return report, nil
}

// describe adds what the environment says of itself beyond its info.
func (r *Report) describe(ctx context.Context, env audit.Environment) error {
	if k, ok := env.(interface{ Kind() string }); ok {
		r.Adapter = k.Kind()
	}
	if n, ok := env.(interface{ Notes() []string }); ok {
		r.Notes = append(r.Notes, n.Notes()...)
	}
	j, ok := env.(interface {
		Jail(ctx context.Context) (string, error)
	})
	if !ok {
		return nil
	}
	var err error
	r.Jail, err = j.Jail(ctx)
	return err
}

// contract holds what every clause needs.
type contract struct {
	env   audit.Environment
	tools map[string]audit.Tool
	task  audit.Task   // with a write in its solution
	write int          // index of the solution's first write
	reads []audit.Call // of solutions, one a tool
	noise []audit.NoisePath
	tasks []audit.Task

	volatile []string // JSON Pointers into what probes show that change by themselves
}

func newContract(ctx context.Context, env audit.Environment) (*contract, error) {
	c := &contract{env: env, tools: map[string]audit.Tool{}, write: -1}
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the tools of %s: %w", env.Info().Name, err)
	}
	for _, t := range tools {
		c.tools[t.Name] = t
	}
	tasker, ok := env.(audit.Tasker)
	if !ok {
		return c, nil
	}
	tasks, err := tasker.Tasks(ctx, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("list the tasks of %s: %w", env.Info().Name, err)
	}
	c.tasks = tasks
	for _, t := range tasks {
		c.consider(t)
	}
	return c, nil
}

// consider keeps the first task that writes, and one read of every tool.
func (c *contract) consider(t audit.Task) {
	for i, call := range t.Solution {
		writes := c.tools[call.Tool].Effect == audit.Write
		known := slices.ContainsFunc(c.reads, func(r audit.Call) bool { return r.Tool == call.Tool })
		switch {
		case writes && c.write < 0:
			c.task, c.write = t, i
		case !writes && !known:
			c.reads = append(c.reads, call)
		}
	}
}

func notApplicable(why string) error { return fmt.Errorf("%s: %w", why, errNotApplicable) }

// written is a session in which the task's solution has just made its first write.
func (c *contract) written(ctx context.Context, start audit.Start) (audit.Session, audit.Observation, error) {
	var obs audit.Observation
	if c.write < 0 {
		return nil, obs, notApplicable("no task's solution makes a call that is known to write")
	}
	start.Task = c.task.ID
	s, err := c.env.Open(ctx, start)
	if err != nil {
		return nil, obs, err
	}
	for _, call := range c.task.Solution[:c.write+1] {
		if obs, err = s.Call(ctx, call); err != nil {
			return s, obs, err
		}
	}
	if obs.Status != audit.StatusOK {
		return s, obs, fmt.Errorf("%s of task %s: %s %s", c.task.Solution[c.write].Tool, c.task.ID, obs.Status, brief(obs.Raw))
	}
	return s, obs, nil
}

// prepared is a session at the point just before that write.
func (c *contract) prepared(ctx context.Context, start audit.Start) (audit.Session, error) {
	if c.write < 0 {
		return nil, notApplicable("no task's solution makes a call that is known to write")
	}
	start.Task = c.task.ID
	s, err := c.env.Open(ctx, start)
	if err != nil {
		return nil, err
	}
	for _, call := range c.task.Solution[:c.write] {
		if _, err := s.Call(ctx, call); err != nil {
			return s, err
		}
	}
	return s, nil
}

func brief(raw []byte) string {
	text := string(bytes.ToValidUTF8(raw, nil))
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return text
}

// able finds an optional ability of a session that the environment names, too.
func able[T any](c *contract, s audit.Session, capability audit.Capability, lack string) (T, error) {
	a, ok := s.(T)
	if !ok || !c.can(capability) {
		var none T
		return none, notApplicable(lack)
	}
	return a, nil
}

// digestOf identifies what can be seen of a session's state: all of it, else what
// the probes of the task's write show.
func (c *contract) digestOf(ctx context.Context, s audit.Session) (audit.Digest, error) {
	if st, err := able[audit.Stater](c, s, audit.CanState, ""); err == nil {
		return st.StateDigest(ctx)
	}
	p, err := able[audit.Prober](c, s, audit.CanProbe, "the state can neither be read nor probed")
	if err != nil {
		return audit.Digest{}, err
	}
	probes := p.Probes(c.task.Solution[c.write])
	if len(probes) == 0 {
		return audit.Digest{}, notApplicable("no probe covers " + c.task.Solution[c.write].Tool)
	}
	first, err := c.view(ctx, s, probes)
	if err != nil {
		return audit.Digest{}, err
	}
	again, err := c.view(ctx, s, probes)
	if err != nil {
		return audit.Digest{}, err
	}
	for _, op := range diff.Diff(first, again) {
		if c.env.Info().Deterministic {
			return audit.Digest{}, fmt.Errorf("the probes answer otherwise when they are made twice: %s", op.Path)
		}
		c.volatile = append(c.volatile, op.Path)
	}
	return diff.Hash(without(again, c.volatile)), nil
}

// view is what probes show, as one value.
func (c *contract) view(ctx context.Context, s audit.Session, probes []audit.Call) (diff.Value, error) {
	answers := make([]json.RawMessage, len(probes))
	for i, probe := range probes {
		seen, err := s.Call(ctx, probe)
		if err != nil {
			return diff.Value{}, err
		}
		if seen.Status == audit.StatusFault || seen.Status == audit.StatusUnknown {
			return diff.Value{}, fmt.Errorf("probe %s: %s", probe.Tool, seen.Status)
		}
		n, err := diff.Normalise(seen.Raw, diff.Limits{})
		if err != nil {
			return diff.Value{}, fmt.Errorf("probe %s: %w", probe.Tool, err)
		}
		answers[i] = n.Value.JSON()
	}
	text, err := json.Marshal(answers)
	if err != nil {
		return diff.Value{}, err
	}
	return diff.Decode(text, diff.Limits{Bytes: 1 << 30, Leaves: 1 << 30})
}

// without sets what is volatile to null.
func without(v diff.Value, volatile []string) diff.Value {
	for _, at := range volatile {
		old, found := v.Lookup(at)
		if !found {
			continue
		}
		op := diff.Op{Op: diff.OpReplace, Path: at, Value: json.RawMessage("null"), Old: old.JSON()}
		if next, err := (diff.Patch{op}).Apply(v); err == nil {
			v = next
		}
	}
	return v
}

// stateOf is the whole state as a value of audit/diff.
func (c *contract) stateOf(ctx context.Context, s audit.Session) (diff.Value, error) {
	st, err := able[audit.Stater](c, s, audit.CanState, "the state cannot be read")
	if err != nil {
		return diff.Value{}, err
	}
	text, err := st.State(ctx, "")
	if err != nil {
		return diff.Value{}, err
	}
	// A state is ours to read whole: only answers are bounded.
	return diff.Decode(text, diff.Limits{Bytes: 1 << 30, Leaves: 1 << 30})
}
