package audit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/audit"
)

// trainingRun simulates the sums of training steps: n audited calls each, of which the
// sandbox refuses real and REHEARSE said, and tasks that succeed in the two worlds.
type trainingRun struct {
	actual, said func(step int) float64
	inside, done func(step int) float64
	hard         func(step int) float64 // share of calls of a tool whose outcomes vary
}

func flat(x float64) func(int) float64 { return func(int) float64 { return x } }

func honest() trainingRun {
	return trainingRun{actual: flat(.15), said: flat(.12), inside: flat(.6), done: flat(.5), hard: flat(.6)}
}

func (r trainingRun) steps(random *rand.Rand, n, calls, episodes int) []audit.TrainingStep {
	count := func(n int, p float64) (k int) {
		for range n {
			if random.Float64() < p {
				k++
			}
		}
		return k
	}
	var steps []audit.TrainingStep
	for i := range n {
		hard := count(calls, r.hard(i))
		failed := count(hard, .5)
		steps = append(steps, audit.TrainingStep{
			Step: int64(i), N: calls, Weight: float64(calls),
			RealErrors: float64(count(calls, r.actual(i))), Rehearsed: float64(count(calls, r.said(i))),
			Episodes: episodes, SuccessSaid: count(episodes, r.inside(i)), SuccessDone: count(episodes, r.done(i)),
			Outcomes: []audit.OutcomeShare{
				{Tool: "hard", Outcome: "ok", Weight: float64(hard - failed)},
				{Tool: "hard", Outcome: "not_found", Weight: float64(failed)},
				{Tool: "easy", Outcome: "ok", Weight: float64(calls - hard)},
			},
		})
	}
	return steps
}

func TestAlarmsAreRaised(t *testing.T) {
	t.Parallel()
	drift := func(from, by float64) func(int) float64 {
		return func(i int) float64 { return max(0.01, min(.99, from+by*float64(i)/100)) }
	}
	tests := []struct {
		change func(*trainingRun)
		kind   audit.AlarmKind
		reason string
	}{
		{func(r *trainingRun) { r.said = drift(.12, -.2) }, audit.AlarmErrorsVanish, "REHEARSE stops refusing, the sandbox does not"},
		{func(r *trainingRun) { r.inside = drift(.6, .35) }, audit.AlarmGap, "tasks succeed more and more in the rehearsed world alone"},
		{func(r *trainingRun) { r.hard = drift(.6, -.6) }, audit.AlarmTrivial, "the policy calls what cannot fail"},
	}
	for _, test := range tests {
		r := honest()
		test.change(&r)
		alarms := audit.TrainingAlarms(r.steps(rand.New(rand.NewPCG(1, 2)), 100, 200, 100))
		if len(alarms) != 1 || alarms[0].Kind != test.kind || alarms[0].Step < 10 || alarms[0].Message == "" {
			t.Errorf("%s: got %+v, want %s alone", test.reason, alarms, test.kind)
		}
	}
	both := honest()
	both.actual, both.said = drift(.15, -.14), drift(.12, -.11)
	if alarms := audit.TrainingAlarms(both.steps(rand.New(rand.NewPCG(1, 2)), 100, 200, 100)); len(alarms) != 0 {
		t.Errorf("errors become rare in both worlds alike: %+v", alarms)
	}
	if alarms := audit.TrainingAlarms(nil); len(alarms) != 0 {
		t.Errorf("no steps: %+v", alarms)
	}
}

// What is usual is a sum over outcomes: its last digits are those of one order.
func TestAlarmsAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	r := honest()
	r.hard = func(i int) float64 { return max(.01, .6-.006*float64(i)) }
	steps := r.steps(rand.New(rand.NewPCG(1, 2)), 100, 200, 100)
	for i := range steps {
		for k := range 12 {
			steps[i].Outcomes = append(steps[i].Outcomes, audit.OutcomeShare{Tool: "hard", Outcome: fmt.Sprint("error ", k), Weight: .1 * float64(k+1)})
		}
	}
	first := audit.TrainingAlarms(steps)
	if len(first) == 0 {
		t.Fatal("no alarm")
	}
	for range 100 {
		if again := audit.TrainingAlarms(steps); !slices.Equal(again, first) {
			t.Fatalf("got %+v, and before %+v", again, first)
		}
	}
}

// TestAlarmsStaySilent: of stable runs of 1000 steps few raise a false alarm.
func TestAlarmsStaySilent(t *testing.T) {
	t.Parallel()
	const runs = 60
	random := rand.New(rand.NewPCG(3, 4))
	raised := map[audit.AlarmKind]int{}
	for range runs {
		for _, a := range audit.TrainingAlarms(honest().steps(random, 1000, 60, 20)) {
			raised[a.Kind]++
		}
	}
	for kind, n := range raised {
		if n > runs/20 {
			t.Errorf("%s: %d of %d stable runs raise an alarm", kind, n, runs)
		}
	}
	t.Logf("false alarms in %d stable runs of 1000 steps: %v", runs, raised)
}
