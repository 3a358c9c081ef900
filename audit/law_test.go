package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/audit/leaktest"
)

// TestMain fixes the seed of property tests, so that a run can be repeated; -rapid.seed
// draws others.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
	leaktest.Main(m)
}

// sane checks what holds of every verdict, whatever the two sides said.
func sane(v *audit.Verdict) error {
	s := &v.Scores
	for name, x := range map[string]*float64{
		"shape": s.Shape, "hallucinated": s.Hallucinated, "omitted": s.Omitted, "leaf F1": s.LeafF1, "exact": s.Exact,
		"id integrity": s.IDIntegrity, "effect precision": s.EffectPrecision, "effect recall": s.EffectRecall,
		"effect F1": s.EffectF1, "phi": s.Phi, "masked weight": &s.MaskedWeight,
	} {
		if x != nil && !(*x >= 0 && *x <= 1) {
			return fmt.Errorf("%s = %v", name, *x)
		}
	}
	switch {
	case !v.Scored() && (s.Phi != nil || s.LeafF1 != nil || v.FalseSuccess):
		return errors.New("a masked verdict has numbers")
	case v.Scored() && (s.Phi == nil) != (s.PhiMask != ""):
		return fmt.Errorf("phi %v with mask %q", s.Phi, s.PhiMask)
	case v.FalseSuccess && (v.Severity != audit.S5 || s.Phi == nil || *s.Phi != 0):
		return errors.New("a false success that is not S5 and worth nothing")
	case v.Scored() && v.Severity == audit.S0 && (s.Phi != nil && *s.Phi < 1 || len(v.Differences) > 0):
		return errors.New("S0 with differences")
	}
	_, err := json.Marshal(v)
	return err
}

func judge(rules *audit.Rules, effect audit.Effect, truth, rehearsed, block string, delta diff.Patch, status audit.Status) audit.Verdict {
	return rules.Judge(&audit.Case{
		Tool: audit.Tool{Name: "t", Effect: effect, Echo: audit.EchoMap{"": "/things/{id}"}},
		Call: call("t", `{"id":"7"}`), Rehearsal: &audit.Rehearsal{Raw: []byte(rehearsed), StateDelta: json.RawMessage(block)},
		Observation: &audit.Observation{Status: status, Raw: []byte(truth), Delta: delta, Evidence: audit.EvidenceExact},
	})
}

func FuzzJudge(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"a":1}`, `{"a":2}`, `[{"op":"replace","path":"/things/7/a","value":1}]`},
		{`{"error":"no"}`, `{"a":1}`, `[]`},
		{`[]`, `[1]`, `{`},
		{`"x"`, ``, ``},
		{``, ``, ``}, // a tool that answers nothing, foretold
		{`{"a":[1,2]}`, `{"a":[2,1]}`, `[{"op":"add","path":"","value":{"$sys":1}}]`},
		{`{"a":1e400}`, `{"a":NaN}`, `null`},
		{"\xff", `{'a': None}`, `[{"op":"remove","path":"/a"}]`},
	} {
		for i := range 3 {
			f.Add(seed[0], seed[1], seed[2], uint8(i))
		}
	}
	rules := defaults(f)
	f.Fuzz(func(t *testing.T, truth, rehearsed, block string, kind uint8) {
		delta := diff.Patch{{Op: diff.OpReplace, Path: "/things/7/a", Value: []byte(`1`), Old: []byte(`0`)}}
		status := []audit.Status{audit.StatusOK, audit.StatusRefused, audit.StatusInvalid}[kind%3]
		if kind%2 == 0 {
			delta = diff.Patch{}
		}
		effect := []audit.Effect{audit.Read, audit.Write, audit.UnknownEffect}[kind/3%3]
		v := judge(rules, effect, truth, rehearsed, block, delta, status)
		if err := sane(&v); err != nil {
			t.Fatalf("%v: %+v", err, v)
		}
		same := judge(rules, audit.Read, truth, truth, "", diff.Patch{}, audit.StatusOK)
		if same.Scored() && same.Severity != audit.S0 {
			t.Fatalf("the truth beside itself: %+v", same)
		}
	})
}

// One more wrong leaf never raises φ, and padding and omission never pay.
func TestOneMoreWrongLeafNeverPays(t *testing.T) {
	t.Parallel()
	rules := defaults(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "leaves")
		truth := make([]string, n)
		for i := range truth {
			truth[i] = fmt.Sprintf(`"f%d":%s`, i, rapid.SampledFrom([]string{`1`, `"x"`, `true`, `null`, `[1,2]`, `{"a":1}`}).Draw(t, "leaf"))
		}
		said, wrong := append([]string(nil), truth...), make([]bool, n)
		last := 1.0
		for step := range rapid.IntRange(1, 2*n).Draw(t, "steps") {
			i := rapid.IntRange(0, n-1).Draw(t, "at")
			switch {
			case rapid.Bool().Draw(t, "pad"):
				said = append(said, fmt.Sprintf(`"padding%d":0`, step))
			case !wrong[i]:
				wrong[i] = true
				said[i] = rapid.SampledFrom([]string{
					fmt.Sprintf(`"f%d":"wrong"`, i), fmt.Sprintf(`"f%d":{"wrong":{"deep":0}}`, i), fmt.Sprintf(`"gone%d":"wrong"`, i),
				}).Draw(t, "wrong")
			default:
				continue
			}
			v := judge(rules, audit.Read, "{"+strings.Join(truth, ",")+"}", "{"+strings.Join(said, ",")+"}", "", nil, audit.StatusOK)
			if v.Scores.Phi == nil || *v.Scores.Phi > last+1e-12 {
				t.Fatalf("φ rose from %v to %v at {%s}", last, v.Scores.Phi, strings.Join(said, ","))
			}
			last = *v.Scores.Phi
		}
	})
}

func TestEffectsArePrecisionAndRecall(t *testing.T) {
	t.Parallel()
	rules := defaults(t)
	delta := diff.Patch{
		{Op: diff.OpReplace, Path: "/orders/1/status", Value: []byte(`"cancelled"`), Old: []byte(`"pending"`)},
		{Op: diff.OpAdd, Path: "/orders/1/refund", Value: []byte(`{"amount":5,"to":"card"}`)},
		{Op: diff.OpReplace, Path: "/$sys/counter", Value: []byte(`8`), Old: []byte(`7`)},
	}
	for _, tc := range []struct {
		block             string
		precision, recall float64
		phantom, silent   bool
		severity          audit.Severity
		reason            string
	}{
		{`[{"op":"replace","path":"/orders/1/status","value":"cancelled"},{"op":"add","path":"/orders/1/refund","value":{"to":"card","amount":5.0}}]`, 1, 1, false, false, audit.S0, "the whole effect; counters are nobody's business"},
		{`[{"op":"replace","path":"/orders/1/status","value":"cancelled"}]`, 1, 1. / 3, false, false, audit.S3, "the refund is forgotten"},
		{`[{"op":"replace","path":"/orders/1/status","value":"cancelled"},{"op":"add","path":"/orders/1/refund","value":{"to":"card","amount":5}},{"op":"replace","path":"/users/9/name","value":"x"}]`, .75, 1, false, false, audit.S3, "something else is said to change"},
		{`[]`, 0, 0, false, true, audit.S3, "a silent write"},
		{`[{"op":"replace","path":"/orders/1/status","value":"pending"}]`, 0, 0, false, false, audit.S3, "the wrong value"},
	} {
		v := judge(rules, audit.Write, `{"done":true}`, `{"done":true}`, tc.block, delta, audit.StatusOK)
		s := v.Scores
		if s.EffectPrecision == nil || math.Abs(*s.EffectPrecision-tc.precision) > 1e-12 && !tc.silent || math.Abs(*s.EffectRecall-tc.recall) > 1e-12 ||
			s.SilentWrite != tc.silent || s.PhantomWrite != tc.phantom || v.Severity != tc.severity || *s.RealCells != 3 {
			t.Errorf("%s: precision %v recall %v, %+v, severity %v", tc.reason, deref(s.EffectPrecision), deref(s.EffectRecall), s, v.Severity)
		}
	}
	none := judge(rules, audit.Write, `{"done":true}`, `{"done":true}`, `[{"op":"replace","path":"/a","value":1}]`, diff.Patch{}, audit.StatusOK)
	if !none.Scores.PhantomWrite || none.Severity != audit.S5 || *none.Scores.EffectF1 != 0 {
		t.Errorf("a claim without a change: %+v, want a phantom write", none)
	}
	for _, made := range []diff.Patch{delta, {}} {
		for _, block := range []string{`[{"op":"fly"}]`, `{`, `{}`, `"x"`, `[{"op":"test","path":"/a","value":1}]`} {
			bad := judge(rules, audit.Write, `{"done":true}`, `{"done":true}`, block, made, audit.StatusOK)
			if s := bad.Scores; s.Phi == nil || *s.Phi != 0 || s.EffectF1 == nil || *s.EffectF1 != 0 || bad.Severity < audit.S3 {
				t.Errorf("%s is no patch: %+v, severity %v; a rehearsal must not mask itself", block, s, bad.Severity)
			}
		}
	}
}

func TestManyEpisodesAtOnce(t *testing.T) {
	t.Parallel()
	a := newAuditor(t, audit.Config{Sessions: 3, Rehearser: rehearserFunc(func(context.Context, audit.RehearseRequest) ([]audit.Rehearsal, error) {
		return []audit.Rehearsal{{Raw: []byte(`{"wallet":1000}`)}}, nil
	})})
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			ep := mix()
			ep.ID = strconv.Itoa(i)
			ep.Actions[0].Replay = i%2 == 0
			if _, err := a.Episode(t.Context(), ep); err != nil {
				t.Errorf("episode %d: %v", i, err)
			}
		})
	}
	group.Wait()
}

func TestACancelledAuditIsAnErrorNotAMask(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the worker stops")
	a := newAuditor(t, audit.Config{Rehearser: rehearserFunc(func(ctx context.Context, _ audit.RehearseRequest) ([]audit.Rehearsal, error) {
		cancel(stop)
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	if _, err := a.Episode(ctx, mix()); !errors.Is(err, stop) {
		t.Errorf("%v, want the cause of the cancellation", err)
	}
}

func TestAnUnknownEnvironmentIsTheCallersError(t *testing.T) {
	t.Parallel()
	ep := mix()
	ep.Environment = "shoop"
	if _, err := newAuditor(t, audit.Config{}).Episode(t.Context(), ep); audit.ErrorCode(err) != audit.CodeNotFound || audit.FaultOf(err) != audit.FaultPermanent {
		t.Errorf("%v: want not_found, a permanent fault", err)
	}
}
