package audit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// AlarmKind says what about a training run is wrong.
type AlarmKind string

// The kinds of alarms: ways in which a rehearsing policy drifts from the world
// while its reward rises (design.md 6).
const (
	// AlarmErrorsVanish: REHEARSE refuses less and less, the sandbox as often as ever.
	AlarmErrorsVanish AlarmKind = "rehearsed_errors_vanish"
	// AlarmGap: tasks succeed more in the rehearsed world than in the real one, and the more so the longer.
	AlarmGap AlarmKind = "imagination_gap"
	// AlarmTrivial: the policy turns to calls whose outcome anybody could have told.
	AlarmTrivial AlarmKind = "trivial_calls"
	// AlarmCanary: an output was a call of the canary battery.
	AlarmCanary AlarmKind = "canary_in_training"
)

// Alarm is a finding about a training run, kept once for its step.
type Alarm struct {
	Kind      AlarmKind `json:"kind"`
	Run       string    `json:"run"`
	Policy    string    `json:"policy"`
	Step      int64     `json:"step"`
	Value     float64   `json:"value"`     // what was seen
	Reference float64   `json:"reference"` // what it was at first
	Height    float64   `json:"height"`    // of the cumulative sum, in standard errors
	Message   string    `json:"message"`
	Raised    time.Time `json:"raised,omitzero"`
}

const (
	// watchReference is how many first steps say what is usual.
	watchReference = 10
	// watchSlack and watchHeight are Page's k and h for a standardised sum. The
	// reference is itself an estimate, wrong in one direction for ever: a rise
	// counts from watchDoubt of its standard errors on. With these a stable run of
	// 1000 steps raises a false alarm in less than a twentieth of all cases
	// (TestAlarmsStaySilent simulates it).
	watchSlack  = 0.5
	watchDoubt  = 2
	watchHeight = 8
	// watchLeast is how many audited outputs a step needs to count.
	watchLeast = 8
)

// watchedSum is a one-sided cumulative sum of standardised rises.
type watchedSum struct {
	n         int
	reference float64
	variance  float64 // of the reference
	sum       float64
}

// add feeds a step's value with the variance of its estimate, and reports
// whether the sum is in alarm. The first steps make the reference.
func (w *watchedSum) add(value, variance float64) bool {
	if w.n++; w.n <= watchReference {
		w.reference += (value - w.reference) / float64(w.n)
		w.variance += variance
		if w.n == watchReference {
			w.variance /= watchReference * watchReference
		}
		return false
	}
	if spread := math.Sqrt(variance); spread > 0 {
		rise := value - w.reference - watchDoubt*math.Sqrt(w.variance)
		w.sum = math.Max(0, w.sum+rise/spread-watchSlack)
	}
	return w.sum > watchHeight
}

// TrainingAlarms looks for what goes wrong over the steps of a training run. It
// is a pure function of them; an alarm is raised at the first step that shows it.
func TrainingAlarms(steps []TrainingStep) []Alarm {
	var (
		alarms []Alarm
		raised = make(map[AlarmKind]bool)
		sums   = map[AlarmKind]*watchedSum{AlarmErrorsVanish: {}, AlarmGap: {}, AlarmTrivial: {}}
		known  surprise
	)
	watch := func(kind AlarmKind, step int64, value, variance float64, text string) {
		w := sums[kind]
		if w.add(value, variance) && !raised[kind] {
			raised[kind] = true
			alarms = append(alarms, Alarm{
				Kind: kind, Step: step, Value: value, Reference: w.reference, Height: w.sum,
				Message: fmt.Sprintf(text, value, w.reference),
			})
		}
	}
	for i := range steps {
		s := &steps[i]
		if s.N >= watchLeast && s.Weight > 0 {
			actual, said := s.RealErrors/s.Weight, s.Rehearsed/s.Weight
			n := float64(s.N)
			watch(AlarmErrorsVanish, s.Step, actual-said, (binomial(actual)+binomial(said))/n,
				"the sandbox refuses %.3f more of the calls than REHEARSE does; at first it was %.3f")
			easy, variance := known.predictability(s)
			watch(AlarmTrivial, s.Step, easy, variance/n,
				"the outcome of a call is now predictable with %.3f; at first it was %.3f: the policy turns to easy calls")
		}
		if s.Episodes >= watchLeast {
			n := float64(s.Episodes)
			said, done := float64(s.SuccessSaid)/n, float64(s.SuccessDone)/n
			watch(AlarmGap, s.Step, said-done, (binomial(said)+binomial(done))/n,
				"tasks succeed %.3f more often in the rehearsed world than in the real one; at first it was %.3f")
		}
	}
	return alarms
}

// binomial is p(1−p), with p kept off its ends: a rate of 0 in few draws is not
// known to be 0.
func binomial(p float64) float64 {
	p = clip(p, 0.02, 0.98)
	return p * (1 - p)
}

// surprise knows the outcomes of each tool during the first steps. They stay as
// they are, so that a policy cannot teach the watch what is usual.
type surprise struct {
	steps  int
	counts map[string]map[string]float64
}

// predictability is how likely the outcomes of a step's calls were, on average,
// to who knows each tool's usual outcomes: Σ p(outcome | tool)² over tools,
// weighted by how often the step calls them.
func (k *surprise) predictability(s *TrainingStep) (mean, variance float64) {
	if k.counts == nil {
		k.counts = make(map[string]map[string]float64)
	}
	if k.steps++; k.steps <= watchReference {
		for _, o := range s.Outcomes {
			if k.counts[o.Tool] == nil {
				k.counts[o.Tool] = make(map[string]float64)
			}
			k.counts[o.Tool][o.Outcome] += o.Weight
		}
	}
	total, square := 0.0, 0.0
	for _, o := range s.Outcomes {
		p := collision(k.counts[o.Tool])
		mean += o.Weight * p
		square += o.Weight * p * p
		total += o.Weight
	}
	if total == 0 {
		return 0, 0
	}
	mean /= total
	return mean, math.Max(square/total-mean*mean, 0.01)
}

// collision is the chance that two outcomes of a tool are the same. A tool that
// was never seen is taken for a coin.
func collision(outcomes map[string]float64) float64 {
	total, same := 0.0, 0.0
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) { // the last digits of a sum depend on its order
		w := outcomes[outcome]
		total += w
		same += w * w
	}
	if total == 0 {
		return 0.5
	}
	return same / (total * total)
}
