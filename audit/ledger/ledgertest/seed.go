package ledgertest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/audit/ledger"
)

// Seed says what a made-up run holds.
type Seed struct {
	Run        string
	Checkpoint int64
	Pairs      int
	Copies     int     // how often it holds them, each time as rollouts of prompts of their own; 0 = once
	Wrong      float64 // 0 to 1: how badly the rehearser of WorstTool does
}

const (
	// WorstTool is the tool of a seeded run whose rehearsals are worst.
	WorstTool = "cancel_order"
	// WorstFamily is what its sandbox answers when they most often say ok.
	WorstFamily = audit.Precondition
	// callsOf is how many calls a seeded episode has.
	callsOf = 10
)

// Fill makes a run of judged pairs: rollouts in open mode, four a prompt, of
// twelve tools that rehearse well and one that does not. Equal seeds fill alike,
// and a run of fewer pairs holds the first calls of a longer one.
func Fill(tb testing.TB, l *ledger.Ledger, seed Seed) {
	tb.Helper()
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := l.CreateRun(tb.Context(), audit.NewRun{Name: seed.Run, Policy: "seeded", Checkpoint: seed.Checkpoint}); err != nil {
		tb.Fatal(err)
	}
	for copied := range max(seed.Copies, 1) {
		f := filler{Seed: seed, rules: rules, random: rand.New(rand.NewPCG(7, 7))}
		if copied > 0 {
			f.suffix = "+" + strconv.Itoa(copied)
		}
		for i := 0; i*callsOf < seed.Pairs; i++ {
			if _, err := l.Commit(tb.Context(), seed.Run, f.episode(i)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := l.CompleteRun(tb.Context(), seed.Run); err != nil {
		tb.Fatal(err)
	}
	if err := l.Summarize(tb.Context(), seed.Run); err != nil {
		tb.Fatal(err)
	}
}

type filler struct {
	Seed
	rules  *audit.Rules
	random *rand.Rand
	suffix string // of the names of a copy
}

// Tools of a seeded run, WorstTool first.
func tools() []string {
	return []string{
		WorstTool, "get_order", "get_customer", "find_customer_by_email", "list_products", "change_order_address", "exchange_items",
		"return_items", "refund", "add_note", "reserve_stock", "change_payment", "get_shipment",
	}
}

func (f *filler) episode(i int) []audit.Pair {
	name := fmt.Sprintf("%s-task-%d/%d%s", f.Run, i/4, i%4, f.suffix)
	success := f.random.IntN(3) > 0
	executed := success && f.random.IntN(5) > 0
	forked := false
	pairs := make([]audit.Pair, 0, callsOf)
	for step := range callsOf {
		p := f.pair(name, i, step)
		p.Success, p.Executed = &success, &executed
		p.Verdict.Cascaded = forked && p.Verdict.Scored()
		if p.Verdict.Scored() && p.Verdict.Severity >= audit.S3 && !forked {
			forked, p.Verdict.Fork = true, true
		}
		pairs = append(pairs, p)
	}
	return pairs
}

func (f *filler) pair(episode string, i, step int) audit.Pair {
	tool := tools()[f.random.IntN(len(tools()))]
	order := 100 + f.random.IntN(900)
	arguments := fmt.Appendf(nil, `{"order_id":"#W%d","reason":"ordered by mistake"}`, order)
	c := f.judged(tool, order)
	c.Call = audit.Call{Tool: tool, Arguments: arguments}
	p := audit.Pair{
		Key: digest(f.Run, episode, step), Episode: episode, PromptGroup: "task-" + strconv.Itoa(i/4) + f.suffix, Policy: "seeded", Checkpoint: f.Checkpoint,
		Environment: "shop", Version: strconv.Itoa(1 + i%2), EnvDigest: digest("shop", i%2), Mode: audit.Open, Effect: c.Tool.Effect,
		Action:      audit.Action{Step: step, CallID: "call_" + strconv.Itoa(step), Call: c.Call, Rehearsal: c.Rehearsal, Prompt: json.RawMessage(`[{"role":"user","content":"Please help with my order."}]`)},
		Observation: c.Observation,
	}
	p.Verdict = f.rules.Judge(c)
	return p
}

// judged is one answer of each side.
func (f *filler) judged(tool string, order int) *audit.Case {
	c := &audit.Case{Environment: "shop", Mode: audit.Open, Tool: audit.Tool{Name: tool, Effect: audit.Read}}
	wrong := .02
	if tool == WorstTool {
		c.Tool.Effect, wrong = audit.Write, f.Wrong
	}
	answer := fmt.Appendf(nil, `{"order_id":"#W%d","status":"cancelled","total":%d.5,"items":[{"sku":"A%d","quantity":1}],"customer":{"name":"Ada","zip":"1010%d"}}`, order, order, order%7, order%10)
	refusal := []byte(`{"error":{"code":"precondition","message":"the order is delivered"}}`)
	confidence := .5 + f.random.Float64()/2
	c.Rehearsal = &audit.Rehearsal{Raw: answer, Confidence: &confidence, LogProbs: []float32{-.01, -.2, -2.5, -.05}}
	c.Observation = &audit.Observation{Status: audit.StatusOK, Raw: answer, Evidence: audit.EvidenceExact, Delta: diff.Patch{}, Before: digest("before", order), After: digest("after", order)}
	misses := f.random.Float64() < wrong
	switch {
	case f.random.IntN(3) == 0: // the sandbox refuses
		c.Observation.Status, c.Observation.Raw = audit.StatusRefused, refusal
		c.Observation.Error = &audit.CallError{Family: WorstFamily, Message: "the order is delivered"}
		if !misses {
			c.Rehearsal.Raw = refusal
		}
	case misses:
		c.Rehearsal.Raw = []byte(string(answer[:len(answer)-3]) + `9"}}`)
	}
	if f.random.IntN(200) == 0 {
		c.Rehearsal = &audit.Rehearsal{Unavailable: "the model server answered 503"}
	}
	return c
}

func digest(parts ...any) audit.Digest { return sha256.Sum256(fmt.Append(nil, parts...)) }
