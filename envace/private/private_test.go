package private_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/guard"
	"understudy/envace/private"
)

// bank is a real environment as the test sees it: it counts what reaches it.
type bank struct {
	mu          sync.Mutex
	opens       int
	calls, paid int
	dies        bool // the process ends right after the call has its effect
}

func (b *bank) Info() audit.EnvironmentInfo { return audit.EnvironmentInfo{Name: "bank"} }
func (b *bank) Close() error                { return nil }
func (b *bank) Tools(context.Context) ([]audit.Tool, error) {
	return []audit.Tool{
		{Name: "look", Effect: audit.Read},
		{Name: "pay", Effect: audit.Write, Input: json.RawMessage(`{"type":"object","required":["amount"],"properties":{"amount":{"type":"integer"}}}`)},
	}, nil
}

func (b *bank) Open(context.Context, audit.Start) (audit.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opens++
	return &account{b}, nil
}

// digest is the whole state that a call could change.
func (b *bank) digest() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("opened %d, called %d, paid %d", b.opens, b.calls, b.paid)
}

type account struct{ *bank }

func (a *account) Close() error { return nil }
func (a *account) Call(_ context.Context, call audit.Call) (audit.Observation, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	if call.Tool == "pay" {
		a.paid++
	}
	if a.dies {
		return audit.Observation{}, errors.New("killed")
	}
	return audit.Observation{Status: audit.StatusOK, Raw: []byte(`{"ok": true}`)}, nil
}

// payer looks, pays and is done; it keeps what it was asked.
type payer struct {
	mu    sync.Mutex
	asked []envace.Request
	chat  int // words of its last reply
}

func (p *payer) Generate(_ context.Context, r envace.Request) (envace.Output, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	copied := *r.Transcript
	p.asked = append(p.asked, envace.Request{Transcript: &copied, Role: r.Role, Seed: r.Seed, Greedy: r.Greedy})
	o := envace.Output{Role: r.Role, Text: `<execution_result>{"rehearsed":true}</execution_result><confidence>1</confidence>`, Tokens: []int32{1, 2}}
	if r.Role == audit.ActRole {
		said := 0
		for _, item := range r.Transcript.Items {
			if item.Act != nil {
				said++
			}
		}
		o.Text = []string{
			`<tool_call>{"name":"look","arguments":{}}</tool_call>`, `<tool_call>{"name":"pay","arguments":{"amount":5}}</tool_call>`,
			"Paid. " + strings.Repeat("word ", p.chat),
		}[min(said, 2)]
	}
	return o, nil
}

func readAct(o envace.Output) envace.Act {
	act := envace.ParseAct(o.Text)
	act.Output = o
	return act
}

func readRehearsal(o envace.Output) envace.Rehearsed {
	r := envace.Rehearsed{Output: o}
	r.Rehearsal, r.Fault = envace.ParseRehearsal(o.Text)
	return r
}

func words(text string) int { return len(strings.Fields(text)) }

type scene struct {
	bank      *bank
	policy    *payer
	rehearser private.Rehearser
	tools     []audit.Tool
	path      string // of the journal
}

func newScene(t *testing.T, n int, mode private.Mode) *scene {
	t.Helper()
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{bank: &bank{}, policy: &payer{}, path: filepath.Join(t.TempDir(), "journal.jsonl")}
	s.tools, _ = s.bank.Tools(t.Context())
	s.rehearser = private.Rehearser{
		Rollout: envace.Rollout{Policy: s.policy, ReadAct: readAct, Tools: s.tools, Rules: rules, Greedy: true},
		World:   envace.Rehearsing{Policy: s.policy, Read: readRehearsal},
		Assess: func(_ context.Context, t *envace.Trajectory) (private.Assessment, error) {
			return private.Assessment{Success: true, Score: 1, Text: "It ended with " + string(t.Stop) + "."}, nil
		},
		Attempts: n, Mode: mode, Memory: private.Memory{Count: words, Rules: rules},
	}
	return s
}

// execution opens the journal again, as another process would.
func (s *scene) execution(t *testing.T) (guard.Execution, *guard.File) {
	t.Helper()
	journal, err := guard.OpenFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Config{Tools: s.tools, Journal: journal, Measured: map[string]guard.Measured{"pay": {FSR: .01}}})
	if err != nil {
		t.Fatal(err)
	}
	return guard.Execution{Guard: g, Environment: s.bank, ID: "order 7"}, journal
}

func (s *scene) commit(t *testing.T, made *private.Rehearsal) (*envace.Trajectory, error) {
	t.Helper()
	execution, journal := s.execution(t)
	trajectory, err := s.rehearser.Commit(t.Context(), made, execution, 1)
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	return trajectory, err
}

// Trap 9 of facts/envace.md, section 6: the attempts reach no environment, its state
// does not change, and one execution is committed.
func TestTrap09AttemptsArePrivateAndOneIsCommitted(t *testing.T) {
	t.Parallel()
	for _, mode := range []private.Mode{private.Parallel, private.Sequential} {
		for n := range 4 {
			s := newScene(t, n, mode)
			before := s.bank.digest()
			made, err := s.rehearser.Rehearse(t.Context(), audit.Task{ID: "t", Prompt: "pay 5"}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if after := s.bank.digest(); after != before || len(made.Attempts) != n {
				t.Errorf("%s, N=%d: %d attempts, environment %s", mode, n, len(made.Attempts), after)
			}
			for _, a := range made.Attempts {
				if a.Trajectory.Check != nil || a.Trajectory.Stop != envace.StopDone || len(a.Trajectory.Calls()) != 2 || a.Tokens != 10 {
					t.Errorf("%s, N=%d: attempt ended with %s after %d calls, %d tokens", mode, n, a.Trajectory.Stop, len(a.Trajectory.Calls()), a.Tokens)
				}
			}
			committed, err := s.commit(t, made)
			if n == 0 { // never rehearsed: the guard lets nothing be written, and asks nobody
				if err != nil || s.bank.paid != 0 {
					t.Errorf("N=0: paid %d times, %v", s.bank.paid, err)
				}
				continue
			}
			if err != nil || committed.Stop != envace.StopDone || s.bank.digest() != "opened 1, called 2, paid 1" {
				t.Errorf("%s, N=%d: %v, %s", mode, n, err, s.bank.digest())
			}
			if committed.Memory != made.Memory || made.Memory == "" {
				t.Errorf("%s, N=%d: the committed execution reads %q", mode, n, committed.Memory)
			}
		}
	}
}

// An answer that written rules call a failure is no evidence for the write, and the
// journal says by which rules it was read.
func TestWrittenRulesReadRehearsals(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2, private.Parallel)
	rules, err := audit.ParseRules([]byte("version: \"1\"\ntools:\n  pay: {fields: [{pointer: /rehearsed, failed: [\"true\"]}]}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.rehearser.Rollout.Rules, s.rehearser.Memory.Rules = rules, rules
	made, err := s.rehearser.Rehearse(t.Context(), audit.Task{ID: "t", Prompt: "pay 5"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.commit(t, made); err != nil || s.bank.paid != 0 {
		t.Errorf("paid %d times, %v; every rehearsal of it was refused", s.bank.paid, err)
	}
	_, journal := s.execution(t)
	entries, err := journal.Entries(t.Context(), "order 7")
	if err := errors.Join(err, journal.Close()); err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 || rules.Written().IsZero() {
		t.Fatalf("%d entries, rules %s", len(entries), rules.Written())
	}
	for _, e := range entries {
		if e.Phase != guard.Answered && e.Rules != rules.Written() {
			t.Errorf("call %d, %s: rules %s, want %s", e.Index, e.Phase, e.Rules, rules.Written())
		}
	}
}

// Trap 9: parallel attempts cannot see each other; sequential ones read the memory of
// those before them.
func TestTrap09ParallelAttemptsAreIndependent(t *testing.T) {
	t.Parallel()
	for _, mode := range []private.Mode{private.Parallel, private.Sequential} {
		s := newScene(t, 3, mode)
		if _, err := s.rehearser.Rehearse(t.Context(), audit.Task{ID: "t"}, 1); err != nil {
			t.Fatal(err)
		}
		seeds, remembered := map[uint64]bool{}, map[string]bool{}
		for _, r := range s.policy.asked {
			if r.Greedy && r.Role == audit.ActRole {
				t.Error("an attempt is greedy: all of them would be the same")
			}
			if r.Role == audit.ActRole && len(r.Transcript.Items) == 0 {
				seeds[r.Seed], remembered[r.Transcript.Memory] = true, true
			}
		}
		want := map[private.Mode]int{private.Parallel: 1, private.Sequential: 3}[mode]
		if len(seeds) != 3 || len(remembered) != want || !remembered[""] {
			t.Errorf("%s: %d seeds, memories %v", mode, len(seeds), remembered)
		}
	}
}

// Trap 9: the memory is under its cap for N = 1 to 8, whatever the cap.
func TestTrap09MemoryIsUnderItsCap(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 8; n++ {
		for _, most := range []int{1, 10, 60, 200, 5000} {
			s := newScene(t, n, private.Sequential)
			s.policy.chat = 40
			s.rehearser.Memory.Most = most
			made, err := s.rehearser.Rehearse(t.Context(), audit.Task{ID: "t"}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if made.Tokens > most || words(made.Memory) != made.Tokens {
				t.Errorf("N=%d: %d tokens of at most %d", n, made.Tokens, most)
			}
			for _, r := range s.policy.asked {
				if got := words(r.Transcript.Memory); got > most {
					t.Errorf("N=%d: an attempt reads %d tokens of at most %d", n, got, most)
				}
			}
			if told := strings.Count(made.Memory, "Attempt "); most == 5000 && told != n || most >= 60 && told == 0 {
				t.Errorf("N=%d, at most %d: %d attempts are told", n, most, told)
			}
		}
	}
}

// Trap 9: whenever the process dies, the payment is made once.
func TestTrap09ACrashNeverCommitsTwice(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1, private.Parallel)
	made, err := s.rehearser.Rehearse(t.Context(), audit.Task{ID: "t"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Between rehearsal and commit nothing has happened yet: the second process commits.
	if _, err := s.commit(t, made); err != nil || s.bank.paid != 1 {
		t.Fatalf("paid %d times, %v", s.bank.paid, err)
	}
	// After the end: it is done.
	if _, err := s.commit(t, made); audit.ErrorCode(err) != audit.CodeConflict || s.bank.digest() != "opened 1, called 2, paid 1" {
		t.Errorf("done, and tried again: %v, %s", err, s.bank.digest())
	}
}

func TestTrap09ACrashAfterTheWriteIsInDoubt(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1, private.Parallel)
	made, err := s.rehearser.Rehearse(t.Context(), audit.Task{ID: "t"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.bank.dies = true
	if _, err := s.commit(t, made); err == nil { // dies at the read
		t.Fatal("a dead process went on")
	}
	s.bank.dies = false
	execution, journal := s.execution(t)
	execution.Environment = diesPaying{s.bank} // the read is made again, then it dies at the write
	if _, err := s.rehearser.Commit(t.Context(), made, execution, 1); err == nil {
		t.Fatal("a dead process went on")
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	if s.bank.paid != 1 {
		t.Fatalf("paid %d times before the crash", s.bank.paid)
	}
	for range 2 {
		_, err = s.commit(t, made)
		if audit.ErrorCode(err) != audit.CodeConflict || audit.ErrorHint(err) == "" || s.bank.paid != 1 {
			t.Errorf("a write in doubt: %v, paid %d times", err, s.bank.paid)
		}
	}
	// A person looked, and wrote the answer down: the execution ends.
	execution, journal = s.execution(t)
	if err := journal.Append(t.Context(), guard.Entry{Execution: "order 7", Index: 1, Phase: guard.Answered, Status: audit.StatusOK, Answer: json.RawMessage(`{"ok":true}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.rehearser.Commit(t.Context(), made, execution, 1); err != nil || s.bank.paid != 1 {
		t.Errorf("settled: %v, paid %d times", err, s.bank.paid)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
}

// diesPaying ends the process right after a payment.
type diesPaying struct{ *bank }

func (d diesPaying) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	session, err := d.bank.Open(ctx, start)
	return dyingAccount{session}, err
}

type dyingAccount struct{ audit.Session }

func (d dyingAccount) Call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	seen, err := d.Session.Call(ctx, call)
	if call.Tool == "pay" {
		return audit.Observation{}, errors.New("killed")
	}
	return seen, err
}

func TestByModel(t *testing.T) {
	t.Parallel()
	trajectory := &envace.Trajectory{Transcript: envace.Transcript{Task: audit.Task{Prompt: "pay 5"}}}
	tests := []struct {
		answers []string
		want    private.Assessment
		reason  string
	}{
		{[]string{`{"success":true,"score":0.5,"assessment":"a","revision":"r"}`}, private.Assessment{Success: true, Score: .5, Text: "a", Revision: "r"}, "as asked for"},
		{[]string{"garbage", `{"success":false,"score":0,"assessment":"","revision":""}`}, private.Assessment{}, "asked again"},
		{[]string{`<think>{"success":false}</think>{"success":true,"score":1,"assessment":"","revision":""}`}, private.Assessment{Success: true, Score: 1}, "thought first, as some servers leave it in the text"},
		{[]string{`{"success":true}`, `{"success":true,"score":7}`}, private.Assessment{Unknown: true}, "twice no assessment is none, not a failure"},
	}
	for _, test := range tests {
		asked := 0
		got, err := private.ByModel(func(context.Context, []envace.Message, json.RawMessage, float64) (string, error) {
			asked++
			return test.answers[asked-1], nil
		}, 0)(t.Context(), trajectory)
		if err != nil || got != test.want || asked != len(test.answers) {
			t.Errorf("%s: %+v, %v", test.reason, got, err)
		}
	}
}
