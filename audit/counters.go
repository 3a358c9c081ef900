package audit

import (
	"maps"
	"slices"
	"strconv"

	"understudy/audit/stat"
)

// Counter names one sum that figures are made of. Every Figure is one; the
// others count what is no mean over pairs. The same words are SQL and JSON.
type Counter string

// Counters are what pairs of one prompt group contribute to figures: sparse
// sums that merge by addition, so that a store can move them by what it really
// inserted. Each holds N, Σw, Σwx and Σwx² of the pairs that count in it, with
// w = min(1/π, 10); x is 1 where pairs are only counted. Calls, masks, confidence
// bins and whole episodes are plain counts: their w is 1.
type Counters map[Counter]stat.Cluster

// The counters that are no Figure. Beside these there are the families built by
// the functions below. What is scored counts without cascaded pairs.
const (
	CountPairs        Counter = "pairs"         // masked, scored and cascaded
	CountCalls        Counter = "calls"         // x = 1 + the repeats that a pair stands for
	CountScored       Counter = "scored"        // pairs with numbers
	CountCascaded     Counter = "cascaded"      // after the fork point of an open episode; x = 1 at S3+
	CountForks        Counter = "forks"         // fork points
	CountHallucinated Counter = "hallucinated"  // x = share of rehearsed paths that are not real
	CountOmitted      Counter = "omitted"       // x = share of real paths that were not rehearsed
	CountUnobservable Counter = "unobservable"  // of writes: x = 1 where the claimed effect cannot be seen
	CountApproximate  Counter = "approximate"   // of scored: x = 1 where an array was paired greedily
	CountOversize     Counter = "oversize"      // of scored: x = 1 where the rehearsal was beyond the limits
	CountMaskedWeight Counter = "masked_weight" // x = share of leaf weight hidden as noise
	CountRightByWrong Counter = "right_by_wrong"
	CountBrier        Counter = "brier" // x = (confidence − hit)²; a hit is below S3

	CountEpisodes         Counter = "episodes"
	CountImagined         Counter = "success_rehearsed" // of episodes whose two successes are known
	CountExecuted         Counter = "success_executed"
	CountOptimistic       Counter = "success_only_rehearsed"
	CountRightByWrongTask Counter = "right_by_wrong_task" // of successful episodes: x = 1 with an S3+ pair
)

// ConfusionCounter counts pairs with that real and that rehearsed outcome label.
func ConfusionCounter(truth, rehearsed string) Counter {
	return Counter("confusion/" + truth + "/" + rehearsed)
}

// MaskedCounter counts masked pairs of one reason; x = 1 + repeats.
func MaskedCounter(reason MaskReason) Counter { return Counter("masked/" + string(reason)) }

// SeverityCounter counts scored pairs of one severity.
func SeverityCounter(s Severity) Counter { return Counter("severity/" + s.String()) }

// EffectCounter averages effect precision, recall or F1 over one stratum of |Δ|.
func EffectCounter(f Figure, s Stratum) Counter { return Counter(string(f) + "/" + string(s)) }

// CanaryCounter averages false success over canaries of one level.
func CanaryCounter(level CanaryLevel) Counter { return Counter("canary_fsr/" + string(level)) }

// ConfidenceBins is how finely confidence is kept.
const ConfidenceBins = 100

// ConfidenceCounter averages hits over the pairs whose rehearsal's confidence
// lies in one of ConfidenceBins equal bins.
func ConfidenceCounter(bin int) Counter { return Counter("confidence/" + strconv.Itoa(bin)) }

// SurvivalCounter counts episodes with k scored pairs up to their first S3+ one
// (x = 1), or in all when they have none (x = 0).
func SurvivalCounter(k int) Counter { return Counter("survival/" + strconv.Itoa(k)) }

// Stratum is a class of |Δ|, the number of cells that a call really changed.
type Stratum string

// The strata of |Δ| (EnvSimBench's).
const (
	NoCells   Stratum = "0"
	FewCells  Stratum = "1-2"
	SomeCells Stratum = "3-6"
	ManyCells Stratum = "7+"
)

// Strata lists every stratum in order.
func Strata() []Stratum { return []Stratum{NoCells, FewCells, SomeCells, ManyCells} }

// StratumOf classes a number of changed cells.
func StratumOf(cells int) Stratum {
	switch {
	case cells <= 0:
		return NoCells
	case cells <= 2:
		return FewCells
	case cells <= 6:
		return SomeCells
	default:
		return ManyCells
	}
}

// Merge adds other to c.
func (c Counters) Merge(other Counters) {
	for name, s := range other {
		at := c[name]
		c[name] = stat.Cluster{N: at.N + s.N, Weight: at.Weight + s.Weight, Sum: at.Sum + s.Sum, SumSq: at.SumSq + s.SumSq}
	}
}

// Names lists the counters that are set, sorted.
func (c Counters) Names() []Counter { return slices.Sorted(maps.Keys(c)) }

func (c Counters) add(name Counter, x, w float64) {
	if !finite(x) {
		return
	}
	at := c[name]
	at.Add(x, w)
	c[name] = at
}

// PairCounters is what one pair contributes to its tool's figures.
func PairCounters(p *Pair) Counters {
	c := make(Counters, 24)
	v, w := &p.Verdict, InclusionWeight(p.Action.Inclusion)
	c.add(CountPairs, 1, w)
	c.add(CountCalls, float64(1+p.Repeats), 1)
	switch {
	case !v.Scored():
		c.add(MaskedCounter(v.Masked), float64(1+p.Repeats), 1)
		return c
	case v.Cascaded:
		c.add(CountCascaded, indicator(v.Severity >= S3), w)
		return c
	}
	for figure, x := range FigureValues(*p) {
		c.add(Counter(figure), x, w)
	}
	c.add(CountScored, 1, w)
	c.add(ConfusionCounter(v.Real.Label(), v.Rehearsed.Label()), 1, w)
	c.add(SeverityCounter(v.Severity), 1, w)
	c.addShares(p, w)
	c.addEffects(p, w)
	c.addConfidence(p, w)
	return c
}

func (c Counters) addShares(p *Pair, w float64) {
	v := &p.Verdict
	if v.Scores.Shape != nil {
		c.add(CountHallucinated, orZero(v.Scores.Hallucinated), w)
		c.add(CountOmitted, orZero(v.Scores.Omitted), w)
	}
	c.add(CountMaskedWeight, v.Scores.MaskedWeight, w)
	c.add(CountApproximate, indicator(slices.Contains(v.Flags, FlagApproximate)), w)
	c.add(CountOversize, indicator(slices.Contains(v.Flags, FlagOversize)), w)
	if v.Fork {
		c.add(CountForks, 1, w)
	}
	if success := p.TaskSuccess(); success != nil && *success {
		c.add(CountRightByWrong, indicator(v.Severity >= S3), w)
	}
	if p.Action.Canary != nil {
		c.add(CanaryCounter(p.Action.Canary.Level), indicator(v.FalseSuccess), w)
	}
}

func (c Counters) addEffects(p *Pair, w float64) {
	if !p.writes() {
		return
	}
	s := &p.Verdict.Scores
	c.add(CountUnobservable, indicator(s.EffectF1 == nil), w)
	if s.EffectF1 == nil || s.RealCells == nil {
		return
	}
	stratum := StratumOf(*s.RealCells)
	c.add(EffectCounter(FigureEffectF1, stratum), *s.EffectF1, w)
	c.add(EffectCounter(FigureEffectPrecision, stratum), orOne(s.EffectPrecision), w)
	c.add(EffectCounter(FigureEffectRecall, stratum), orOne(s.EffectRecall), w)
}

func (c Counters) addConfidence(p *Pair, w float64) {
	if p.Action.Rehearsal == nil || p.Action.Rehearsal.Confidence == nil || !finite(*p.Action.Rehearsal.Confidence) {
		return
	}
	confidence, hit := unit(*p.Action.Rehearsal.Confidence), indicator(p.Verdict.Severity < S3)
	c.add(ConfidenceCounter(min(int(confidence*ConfidenceBins), ConfidenceBins-1)), hit, 1)
	c.add(CountBrier, (confidence-hit)*(confidence-hit), w)
}

// EpisodeCounters is what a whole episode contributes beside its pairs: survival
// to the first S3+, and success as rehearsed and as executed. Canary episodes
// contribute nothing.
func EpisodeCounters(pairs []Pair) Counters {
	c := make(Counters, 8)
	if len(pairs) == 0 || pairs[0].Mode == Canary {
		return c
	}
	c.add(CountEpisodes, 1, 1)
	diverged := c.addSurvival(pairs)
	first := &pairs[0]
	if success := first.TaskSuccess(); success != nil && *success {
		c.add(CountRightByWrongTask, indicator(diverged), 1)
	}
	if first.Success != nil && first.Executed != nil {
		c.add(CountImagined, indicator(*first.Success), 1)
		c.add(CountExecuted, indicator(*first.Executed), 1)
		c.add(CountOptimistic, indicator(*first.Success && !*first.Executed), 1)
	}
	return c
}

// addSurvival follows the first rehearsal of each action up to its first S3+.
func (c Counters) addSurvival(pairs []Pair) (diverged bool) {
	k := 0
	for i := range pairs {
		p := &pairs[i]
		if !p.Verdict.Scored() || p.Action.Probe > 0 || p.Action.Sample > 0 {
			continue
		}
		k++
		if p.Verdict.Severity >= S3 {
			c.add(SurvivalCounter(k), 1, 1)
			return true
		}
	}
	if k > 0 {
		c.add(SurvivalCounter(k), 0, 1)
	}
	return false
}

func orZero(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}
