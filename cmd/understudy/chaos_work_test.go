package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"understudy/audit"
	"understudy/web/client"
)

// expectation is what may become of an action.
type expectation struct {
	severity audit.Severity
	masked   bool // a mask is right, too: model or sandbox may have been out
	any      bool // any verdict: the model may have said anything
	dead     bool // a dead letter is the answer
}

// work is what one round asks for.
type work struct {
	run      string
	episodes []audit.Episode
	expected map[string][]expectation // by episode, in the order of its actions
	batches  []audit.ScoreBatch       // over HTTP, the last one over NATS
	lies     map[string]bool          // episodes of the batches whose answers are false successes
}

// sample is one call of the built-in world with what it truly answers.
type sample struct {
	call  audit.Call
	truth string
	lie   string // a false success; "" = the call succeeds
}

// samples are the calls that rounds are made of.
func (c *chaos) samples() []sample {
	calls := []audit.Call{
		toolCall("get_user", `{"user":"U1"}`), toolCall("get_user", `{"user":"U99"}`), toolCall("get_order", `{"order":"O1"}`),
	}
	truths := replay(c.t, world(c.t, "retail-mini@1"), calls...)
	return []sample{{calls[0], truths[0], ""}, {calls[1], truths[1], truths[0]}, {calls[2], truths[2], ""}}
}

// newWork is a round's work: honest and lying episodes, some that a policy must
// rehearse, some on a sandbox behind HTTP, one that nobody can audit, and batches
// of outputs to pay.
func (c *chaos) newWork(round int) *work {
	w := &work{run: fmt.Sprintf("chaos-%d", round), expected: map[string][]expectation{}, lies: map[string]bool{}}
	for i := range 6 {
		w.recorded(c, fmt.Sprintf("recorded-%d", i), i%3 == 2)
	}
	for i := range 2 {
		w.rehearsed(c, fmt.Sprintf("rehearsed-%d", i))
	}
	w.add("slow", "slow", []audit.Action{{
		Call: toolCall("get_thing", `{"thing":"lamp"}`), Rehearsal: &audit.Rehearsal{Raw: []byte(slowAnswer)},
	}}, []expectation{{severity: audit.S0, masked: true, dead: true}})
	w.add("poison", "no-such-world", []audit.Action{{
		Call: c.cases[0].call, Rehearsal: &audit.Rehearsal{Raw: []byte(`{}`)},
	}}, []expectation{{dead: true}})
	for i := range 3 {
		w.batch(c, i, round)
	}
	return w
}

// add adds an episode whose actions differ from all others by their prompts.
func (w *work) add(name, environment string, actions []audit.Action, expected []expectation) {
	name = w.run + " " + name
	for i := range actions {
		actions[i].Step = i
		actions[i].Prompt = json.RawMessage(strconv.Quote(name + " " + strconv.Itoa(i)))
	}
	w.expected[name] = expected
	w.episodes = append(w.episodes, audit.Episode{
		ID: name, PromptGroup: name, Policy: w.run, WireAPI: "recorded", Environment: environment, Mode: audit.Forced, Actions: actions,
	})
}

func (w *work) recorded(c *chaos, name string, lying bool) {
	var (
		actions  []audit.Action
		expected []expectation
	)
	for _, s := range c.cases {
		answer, want := s.truth, expectation{severity: audit.S0}
		if lying && s.lie != "" {
			answer, want.severity = s.lie, audit.S5
		}
		actions = append(actions, audit.Action{Call: s.call, Rehearsal: &audit.Rehearsal{Raw: []byte(answer)}})
		expected = append(expected, want)
	}
	w.add(name, "retail-mini@1", actions, expected)
}

// rehearsed is an episode that a worker must ask the model about. An answer that
// the model garbled may be anything; one that it withheld is masked.
func (w *work) rehearsed(c *chaos, name string) {
	w.add(name, "retail-mini@1", []audit.Action{{Call: c.cases[0].call}}, []expectation{{severity: audit.S0, masked: true}})
}

func (w *work) batch(c *chaos, n, round int) {
	b := audit.ScoreBatch{Run: "paid-" + w.run, Policy: "paid", Checkpoint: int64(round), DeadlineMS: 2000}
	for i, s := range c.cases {
		name := fmt.Sprintf("%s paid %d %d", w.run, n, i)
		answer := s.truth
		if n == 1 && s.lie != "" {
			answer, w.lies[name] = s.lie, true
		}
		b.Outputs = append(b.Outputs, audit.Output{Environment: "retail-mini@1", Episode: name, Call: s.call, Rehearsal: &answer})
	}
	w.batches = append(w.batches, b)
}

// insist repeats what a fault cut off, as every producer must. The pause is short
// beside what servers need to come back.
func insist(ctx context.Context, what string, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(context.Cause(ctx), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// enqueue puts the episodes into the ledger's queue, as import does.
func (c *chaos) enqueue(ctx context.Context, w *work) error {
	err := insist(ctx, "create the run", func() error {
		_, err := c.ledger.CreateRun(ctx, audit.NewRun{Name: w.run})
		if audit.ErrorCode(err) == audit.CodeConflict {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for half := range slices.Chunk(w.episodes, (len(w.episodes)+1)/2) {
		err = errors.Join(err, insist(ctx, "enqueue", func() error {
			_, err := c.ledger.Enqueue(ctx, w.run, half)
			return err
		}))
	}
	return err
}

// payment is what was answered about the outputs of a round.
type payment map[audit.Digest]audit.Reward

// scorer asks for the rewards of a batch; either way to ask is one.
type scorer func(ctx context.Context, batch audit.ScoreBatch) (audit.ScoredBatch, error)

// overHTTP asks the service, which may be killed meanwhile.
func (c *chaos) overHTTP() scorer {
	asker := &client.Client{URL: c.url, Retries: -1, HTTP: &http.Client{Timeout: 20 * time.Second}}
	return asker.Score
}

// overNATS asks whichever service listens.
func (c *chaos) overNATS(conn *nats.Conn) scorer {
	return func(ctx context.Context, batch audit.ScoreBatch) (scores audit.ScoredBatch, err error) {
		text, err := json.Marshal(batch)
		if err != nil {
			return scores, err
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		reply, err := conn.RequestWithContext(ctx, "audit.ask.score", text)
		if err != nil {
			return scores, err
		}
		if err := json.Unmarshal(reply.Data, &scores); err != nil {
			return scores, err
		}
		if len(scores.Scores) != len(batch.Outputs) {
			return scores, fmt.Errorf("the service answers %s", reply.Data)
		}
		return scores, nil
	}
}

// pay asks until every output of the batch has its reward, and fails when one is
// answered in two ways.
func pay(ctx context.Context, batch audit.ScoreBatch, score scorer, paid payment) error {
	return insist(ctx, "score", func() error {
		scores, err := score(ctx, batch)
		if err != nil {
			return err
		}
		for _, r := range scores.Scores {
			if r.Status == audit.RewardPending {
				continue
			}
			if before, ok := paid[r.ID]; ok && (before.Term != r.Term || before.Status != r.Status || before.Key != r.Key) {
				return fmt.Errorf("payee %s was told %+v and then %+v", r.ID, before, r)
			}
			paid[r.ID] = r
		}
		if scores.Pending > 0 {
			return fmt.Errorf("%d outputs are pending", scores.Pending)
		}
		return nil
	})
}

// read looks at pages as people do until ctx ends, and returns an error for a page
// that shows what cannot be.
func (c *chaos) read(ctx context.Context, w *work) error {
	paths := []string{"/", "/calls?run=" + w.run, "/jobs", "/v1/alarms", "/events?run=" + w.run}
	for i := 0; ctx.Err() == nil; i++ {
		path := paths[i%len(paths)]
		text := c.page(ctx, path)
		if strings.Contains(text, "NaN") || strings.Contains(text, "does not add up") {
			return fmt.Errorf("%s shows what cannot be: %.2000s", path, text)
		}
		c.reads.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// page reads a page, or as much of it as comes within a moment.
func (c *chaos) page(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		c.t.Error(err)
		return ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "" // the service is dead just now
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // it may die now
	return string(text)
}
