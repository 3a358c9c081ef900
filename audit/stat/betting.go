package stat

import (
	"math"
	"slices"
)

// Side is the direction of a claim about a mean.
type Side int

// The sides.
const (
	Above Side = iota // the claim is "mean > limit"; the null hypothesis "mean <= limit"
	Below             // the claim is "mean < limit"; the null hypothesis "mean >= limit"
)

// maxLogE caps the logarithm of an e-value, so that e itself stays finite.
const maxLogE = 700

// bettingStakes is how many stakes the mixture spreads its capital over.
const bettingStakes = 40

// Wealth is the evidence for a claim about the mean of values in [0,1]: the
// capital of a gambler who bets against the null hypothesis at many fixed
// stakes at once, starting from 1 (Waudby-Smith, Ramdas 2024, JRSS-B 86:1,
// section 4; mixture over stakes as in their "diversified" bets).
//
// Under the null hypothesis the capital reaches 1/α with probability at most α
// however often one looks (Ville 1939): 1/e is a p-value at any look, with no
// correction for looking. The values must be independent: one mean per prompt
// group, never single steps (fed with correlated steps such a test passes a
// policy at the boundary in 43 % of cases). The order of values does not matter,
// so groups may arrive in any order.
type Wealth struct {
	N      int
	Reason string // why there is no evidence; "" when there is

	limit   float64 // seen from above: 1-limit for Below
	below   bool
	stakes  []float64 // share of the capital risked by each gambler
	logs    []float64 // log capital of each gambler, without capital
	capital []float64 // what each gambler won since logs was last updated
	sure    bool      // the null hypothesis is impossible on these data
}

// NewWealth starts a test of the claim that a mean lies on the given side of
// limit. A limit outside [0,1] gives a wealth of 1 for ever, and a Reason.
func NewWealth(limit float64, side Side) *Wealth {
	w := &Wealth{Reason: reasonNoData, limit: limit, below: side == Below}
	if !finite(limit) || limit < 0 || limit > 1 {
		w.Reason = reasonLimit
		return w
	}
	if w.below { // "mean < limit" of x is "mean > 1-limit" of 1-x
		w.limit = 1 - limit
	}
	w.stakes = make([]float64, bettingStakes)
	w.logs = make([]float64, bettingStakes)
	w.capital = make([]float64, bettingStakes)
	for i := range w.stakes {
		w.stakes[i], w.capital[i] = stake(i), 1
	}
	return w
}

// Bet bets on the claim that the mean of values lies on the given side of limit.
// A value outside [0,1] or not finite voids all evidence and gives a Reason.
func Bet(values []float64, limit float64, side Side) *Wealth {
	w := NewWealth(limit, side)
	for _, x := range values {
		w.Add(x)
	}
	return w
}

// Add plays one round at every stake.
func (w *Wealth) Add(x float64) {
	w.N++
	if !(x >= 0 && x <= 1) {
		w.Reason, w.stakes, w.sure = reasonRange, nil, false
	}
	if w.stakes == nil {
		return
	}
	w.Reason = ""
	if w.below {
		x = 1 - x
	}
	if w.limit == 0 { // one positive value refutes a mean of 0
		w.sure = w.sure || x > 0
		return
	}
	gain := (x - w.limit) / w.limit
	for i, f := range w.stakes {
		c := w.capital[i] * (1 + f*gain)
		if c < 1e-100 || c > 1e100 { // bank it before it leaves the range of floats
			w.logs[i] += math.Log(c)
			c = 1
		}
		w.capital[i] = c
	}
}

// addTimes plays n rounds with the same value, which must lie in [0,1].
func (w *Wealth) addTimes(x float64, n int) {
	if n < 8 || w.limit == 0 {
		for range n {
			w.Add(x)
		}
		return
	}
	w.Add(x)
	if w.below {
		x = 1 - x
	}
	w.N += n - 1
	gain := (x - w.limit) / w.limit
	for i, f := range w.stakes {
		w.logs[i] += float64(n-1) * math.Log1p(f*gain)
	}
}

// stake is the share of the capital that gambler i risks: spread evenly over
// (0, 0.99). Small margins need stakes near (mean-limit)/(1-limit), and an even
// spread always has some nearby; a logarithmic one needs a quarter more groups.
func stake(i int) float64 { return .99 * (float64(i) + .5) / bettingStakes }

// LogE is the natural logarithm of the e-value, as it would be if the same data
// came replicas times over: 1 for the evidence at hand, more to project how much
// more is needed. It lies in [-700, 700]; 0 without data.
func (w *Wealth) LogE(replicas float64) float64 {
	switch {
	case w.sure:
		return maxLogE
	case len(w.stakes) == 0 || !finite(replicas) || replicas <= 0:
		return 0
	}
	top := math.Inf(-1)
	for i := range w.stakes {
		top = max(top, w.logCapital(i))
	}
	sum := 0.
	for i := range w.stakes {
		sum += math.Exp(replicas * (w.logCapital(i) - top))
	}
	return min(maxLogE, max(-maxLogE, replicas*top+math.Log(sum/bettingStakes)))
}

func (w *Wealth) logCapital(i int) float64 { return w.logs[i] + math.Log(w.capital[i]) }

// P is the p-value min(1, 1/e): valid at every look.
func (w *Wealth) P() float64 { return min(1, math.Exp(-w.LogE(1))) }

// BettingMean is the mean of values in [0,1] with the interval of all limits
// that the evidence does not refute at any look (a confidence sequence). Feed it
// one mean per prompt group.
func BettingMean(values []float64, confidence float64) Estimate {
	const method = "betting confidence sequence over group means"
	if !validConfidence(confidence) {
		return undefined(method, reasonConfidence, confidence, 0, 1)
	}
	if probe := Bet(values, .5, Above); probe.Reason != "" { // voids NaN and values beyond [0,1]
		return undefined(method, probe.Reason, confidence, 0, 1)
	}
	mean := 0.
	for _, x := range values {
		mean += x / float64(len(values))
	}
	alpha := (1 - confidence) / 2
	return Estimate{
		Value: clamp01(mean), Lo: BettingBound(values, alpha, Below), Hi: BettingBound(values, alpha, Above),
		Confidence: confidence, N: len(values), NEff: float64(len(values)), Clusters: len(values), Method: method,
	}
}

// BettingBound is the one-sided bound at level 1-alpha: the largest limit that
// the mean is shown to exceed (side Below: a lower bound), or the smallest that
// it is shown to stay under (side Above: an upper bound), to within 1e-8. Without
// data it is 0 or 1.
func BettingBound(values []float64, alpha float64, side Side) float64 {
	need := -math.Log(alpha)
	// The claim that is shown: for a lower bound, that the mean is above it.
	claim, trivial := Above, 0.
	if side == Above {
		claim, trivial = Below, 1.
	}
	outside := func(x float64) bool { return !(x >= 0 && x <= 1) }
	if !finite(need) || need <= 0 || len(values) == 0 || slices.ContainsFunc(values, outside) {
		return trivial
	}
	distinct, times := runs(values)
	mean := 0.
	for i, x := range distinct {
		mean += x * float64(times[i]) / float64(len(values))
	}
	excess := func(limit float64) float64 { // falls from the trivial end to the mean
		w := NewWealth(limit, claim)
		for i, x := range distinct {
			w.addTimes(x, times[i])
		}
		return w.LogE(1) - need
	}
	return crossing(excess, trivial, mean)
}

// crossing finds where f changes sign between shown (f >= 0) and open (f < 0), on
// shown's side: bisection until f is tame, then the Illinois variant of false
// position. It ends within 1e-6 of f = 0 or within 1e-9 of the place.
func crossing(f func(float64) float64, shown, open float64) float64 {
	atShown, atOpen := f(shown), f(open)
	if atShown < 0 {
		return shown
	}
	repeats := 0 // steps in a row to shown's side, negative to open's
	for math.Abs(open-shown) > 1e-9 {
		mid := (shown + open) / 2
		if atShown < 20 && atOpen > -20 {
			mid = shown + (open-shown)*atShown/(atShown-atOpen)
		}
		switch at := f(mid); {
		case at >= 0 && at < 1e-6:
			return mid
		case at >= 0:
			shown, atShown, repeats = mid, at, max(repeats, 0)+1
			if repeats > 1 {
				atOpen /= 2
			}
		default:
			open, atOpen, repeats = mid, at, min(repeats, 0)-1
			if repeats < -1 {
				atShown /= 2
			}
		}
	}
	return shown
}

// runs lists distinct values, ascending, and how often each occurs: group means
// of a few calls take few values.
func runs(values []float64) (distinct []float64, times []int) {
	for i, x := range slices.Sorted(slices.Values(values)) {
		if i == 0 || x != distinct[len(distinct)-1] {
			distinct, times = append(distinct, x), append(times, 0)
		}
		times[len(times)-1]++
	}
	return distinct, times
}
