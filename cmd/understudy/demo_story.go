package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/ledger"
)

// story tells what the demo does, line by line, with the time since it began; with
// --json it is silent and ends with one document.
type story struct {
	mu     sync.Mutex
	out    io.Writer
	url    string // of the dashboard
	began  time.Time
	silent bool
	told   demoReport
}

// demoReport is what --json prints.
type demoReport struct {
	Runs []demoRun `json:"runs"`
	Took float64   `json:"seconds"`
}

// demoRun is one audited checkpoint.
type demoRun struct {
	Run        string          `json:"run"`
	Policy     string          `json:"policy"`
	Checkpoint int64           `json:"checkpoint"`
	Figures    []audit.Figures `json:"figures"`
	Verdict    *gate.Verdict   `json:"verdict"`
	Seconds    float64         `json:"seconds"` // since the beginning
}

func (s *story) seconds() float64 { return time.Since(s.began).Seconds() }

// say tells one thing.
func (s *story) say(format string, args ...any) {
	if s.silent {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%5.1fs  %s\n", s.seconds(), strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}

// auditRun audits episodes as a run, prints its table and what the gate says.
func (s *story) auditRun(ctx context.Context, inv *invocation, p *pipeline, run audit.NewRun, episodes []audit.Episode) error {
	if _, err := p.ledger.CreateRun(ctx, run); err != nil {
		return err
	}
	queued, err := p.ledger.Enqueue(ctx, run.Name, episodes)
	if err != nil {
		return err
	}
	s.say("%d episodes queued: rollouts of tasks, and canaries, which are calls that the sandbox must refuse", queued)
	if err := p.drain(ctx, inv, run.Name); err != nil {
		return err
	}
	s.say("every action executed, compared, stored: %s/?run=%s", s.url, url.QueryEscape(run.Name))
	verdict, err := decide(ctx, p.ledger, run.Name)
	if err != nil {
		return err
	}
	if s.silent {
		return s.keep(ctx, p.ledger, run, verdict)
	}
	s.mu.Lock() // a table is not torn by what happens beside it
	defer s.mu.Unlock()
	fmt.Fprintln(s.out)
	if err := printRun(ctx, inv, p.ledger, run.Name); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "gate: %s\n%s\n\n", verdict.Line, meaning(verdict.Status))
	return nil
}

// meaning is what a verdict of the gate says about a release.
func meaning(status gate.Status) string {
	switch status {
	case gate.Pass:
		return "      it may be released: every interval clears its limit"
	case gate.Fail:
		return "      its release is blocked: an interval, corrected for the number of tools, lies beyond its limit"
	case gate.Inconclusive, gate.Error:
	}
	return "      its release waits: nothing is shown to be wrong, and more calls are needed to show that it is right"
}

func (s *story) keep(ctx context.Context, l *ledger.Ledger, run audit.NewRun, verdict *gate.Verdict) error {
	tally, err := l.Tally(ctx, run.Name)
	if err != nil {
		return err
	}
	s.told.Runs = append(s.told.Runs, demoRun{
		Run: run.Name, Policy: run.Policy, Checkpoint: run.Checkpoint, Figures: tally.Figures(figureSeed), Verdict: verdict, Seconds: s.seconds(),
	})
	return nil
}

// end prints the document of --json.
func (s *story) end() error {
	if !s.silent {
		return nil
	}
	s.told.Took = s.seconds()
	text, err := json.MarshalIndent(s.told, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = fmt.Fprintf(s.out, "%s\n", text)
	return err
}

// decide is the verdict of the gate policy that everybody starts from; the ledger keeps it.
func decide(ctx context.Context, l *ledger.Ledger, run string) (*gate.Verdict, error) {
	policy, err := gate.Load(gate.Starting())
	if err != nil {
		return nil, err
	}
	evidence, err := gate.Collect(ctx, l, policy, run, "none")
	if err != nil {
		return nil, err
	}
	v := gate.Decide(policy, evidence, gate.Options{Now: time.Now()})
	return v, saveVerdict(ctx, l, v)
}
