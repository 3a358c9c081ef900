package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"understudy/audit"
	"understudy/audit/stat"
)

// decision is the state of one Decide.
type decision struct {
	policy   *Policy
	evidence *Evidence
	verdict  *Verdict
	now      time.Time
	pending  []pending
}

// correct computes p-values and the error rate left to each check. The checks of
// one figure and kind share their error rate; informational ones and those
// without data take no part.
func (d *decision) correct() {
	alpha := 1 - d.policy.Confidence
	families := map[string][]*pending{}
	for i := range d.pending {
		c := &d.pending[i]
		c.PassP, c.FailP, c.PassLevel, c.FailLevel = 1, 1, alpha, alpha
		if c.Estimate.N == 0 || c.Kind == Count {
			continue
		}
		c.PassP, c.FailP = c.test.p(c.keeps), c.test.p(c.opposite())
		if d.policy.Multiple == Holm && !c.Informational {
			key := string(c.Figure) + "/" + string(c.Kind)
			families[key] = append(families[key], c)
		}
	}
	for _, family := range families {
		pass, fail := make([]float64, len(family)), make([]float64, len(family))
		for i, c := range family {
			pass[i], fail[i] = c.PassP, c.FailP
		}
		passLevels, failLevels := stat.HolmLevels(pass, alpha), stat.HolmLevels(fail, alpha)
		pass, fail = stat.Holm(pass), stat.Holm(fail)
		for i, c := range family {
			c.PassP, c.FailP, c.PassLevel, c.FailLevel = pass[i], fail[i], passLevels[i], failLevels[i]
		}
	}
}

// settle gives a check its status, its bounds and what it lacks.
func (d *decision) settle(c *pending) {
	alpha := 1 - d.policy.Confidence
	switch {
	case c.broken != "":
		c.Status, c.Reason = Error, c.broken
		return
	case c.Estimate.N == 0:
		d.settleNoData(c)
		return
	case c.Kind == Count:
		d.settleCount(c)
	case !c.Estimate.Defined():
		c.Status, c.Reason = Error, c.Estimate.Reason
		return
	default:
		c.Estimate.Lo, c.Estimate.Hi = c.bounds()
		c.Estimate.Confidence = d.policy.Confidence
		c.Status = Inconclusive
		if c.PassP <= alpha {
			c.Status = Pass
		}
		if c.FailP <= alpha {
			c.Status = Fail
		}
	}
	d.hold(c)
	if c.Status == Inconclusive && c.Needs == 0 && c.Reason == "" {
		c.project()
	}
}

// bounds are the lower and the upper bound, each at its own error rate.
func (c *pending) bounds() (lo, hi float64) {
	passBound, failBound := c.test.bound(c.PassLevel, c.keeps), c.test.bound(c.FailLevel, c.opposite())
	if c.keeps == stat.Above {
		return passBound, failBound
	}
	return failBound, passBound
}

// settleNoData applies on_no_data.
func (d *decision) settleNoData(c *pending) {
	c.Reason = "no call counts in it"
	if c.unobservable > 0 {
		c.Reason = fmt.Sprintf("the effect of all its %d writes cannot be seen", c.unobservable)
	}
	switch d.policy.OnNoData {
	case NoDataFail:
		c.Status = Fail
	case NoDataIgnore:
		c.Status, c.Informational = Inconclusive, true
	case NoDataInconclusive:
		c.Status = Inconclusive
	}
	c.Needs = max(c.minSamples, d.fromNothing(c))
}

// fromNothing is how many prompt groups without a single fault show the limit.
func (d *decision) fromNothing(c *pending) int {
	if c.Kind != Limit {
		return 0
	}
	tolerated := c.Limit // rate of faults at the limit
	if c.keeps == stat.Above {
		tolerated = 1 - c.Limit
	}
	if d.policy.Looks == Once { // (1-tolerated)^n <= level
		return min(maxNeeds, int(math.Ceil(math.Log(c.PassLevel)/math.Log1p(-tolerated))))
	}
	one := &bettingTest{values: []float64{0}, limit: tolerated, scale: 1}
	return int(math.Ceil(min(maxNeeds, one.bet().more(c.PassLevel, stat.Below))))
}

func (d *decision) settleCount(c *pending) {
	c.Status = Pass
	if c.Estimate.Value > c.Limit+1e-9 {
		c.Status = Fail
	}
}

// hold keeps a check from passing on too few calls or too many masked ones. A
// limit that is shown to be broken stays broken.
func (d *decision) hold(c *pending) {
	if c.Status != Pass {
		return
	}
	if c.Estimate.N < c.minSamples {
		c.Status, c.Needs = Inconclusive, c.minSamples-c.Estimate.N
	}
	if unseen := float64(c.unobservable) / float64(c.unobservable+c.Estimate.N); unseen > c.maskedMax {
		c.Status = Inconclusive
		c.Reason = fmt.Sprintf("the effect of %s of its writes cannot be seen, masked_max is %s", formatShare(unseen), formatShare(c.maskedMax))
	}
	if c.Masked > c.maskedMax {
		c.Status = Inconclusive
		c.Reason = fmt.Sprintf("%s of its pairs are masked, masked_max is %s", formatShare(c.Masked), formatShare(c.maskedMax))
	}
}

// project says how many more calls would decide, if the coming ones are like
// those seen: towards the side on which the mean lies now.
func (c *pending) project() {
	side, level := c.keeps, c.PassLevel
	distance := c.Estimate.Value - c.Limit
	if c.Kind == Change {
		distance = c.Estimate.Value - map[stat.Side]float64{stat.Above: -c.Limit, stat.Below: c.Limit}[c.keeps]
	}
	if (distance > 0) != (c.keeps == stat.Above) {
		side, level = c.opposite(), c.FailLevel
	}
	calls := (c.test.more(level, side) - 1) * float64(c.Estimate.N)
	if calls > maxNeeds {
		c.Reason = "the value sits at its limit: more calls of this kind will not decide it"
		return
	}
	c.Needs = max(1, int(math.Ceil(calls)), c.minSamples-c.Estimate.N)
}

// countFindings applies the rule on new kinds of difference.
func (d *decision) countFindings() {
	rule := d.policy.Findings
	known := map[string]bool{}
	for _, k := range d.policy.Known {
		if k.Expires.After(d.now) {
			known[k.Fingerprint] = true
		} else {
			d.note("known issue %s expired on %s and counts again", k.Fingerprint, k.Expires.AddDate(0, 0, -1).Format(time.DateOnly))
		}
	}
	severity := audit.S3
	if rule != nil {
		severity = rule.Severity
	}
	for _, f := range d.evidence.Findings {
		if _, old := slices.BinarySearch(d.evidence.BaselineFindings, f.Fingerprint); !old && f.Severity >= severity && !known[f.Fingerprint] {
			d.verdict.New = append(d.verdict.New, f.Fingerprint)
		}
	}
	if rule == nil {
		return
	}
	var all pooled
	for i := range d.evidence.Counts {
		all.count(&d.evidence.Counts[i])
	}
	seen := all.drawn - all.maskedPairs
	c := Check{
		Kind: Findings, Bound: "max_new", Limit: float64(rule.MaxNew), Critical: rule.Critical, Status: Pass, PassP: 1, FailP: 1, Masked: all.masked(),
		Estimate: stat.Estimate{Value: float64(len(d.verdict.New)), N: seen, NEff: float64(seen), Method: "count of fingerprints"},
	}
	c.Estimate.Lo, c.Estimate.Hi = c.Estimate.Value, c.Estimate.Value
	switch {
	case len(d.verdict.New) > rule.MaxNew:
		c.Status = Fail
		c.Reason = fmt.Sprintf("%d new kinds of difference at %s or worse", len(d.verdict.New), severity)
	case seen <= 0:
		c.Status, c.Reason = Inconclusive, "no call has a verdict"
	case c.Masked > value(d.policy.Defaults.MaskedMax):
		c.Status = Inconclusive
		c.Reason = fmt.Sprintf("%s of the pairs are masked, masked_max is %s", formatShare(c.Masked), formatShare(value(d.policy.Defaults.MaskedMax)))
	}
	d.verdict.Checks = append(d.verdict.Checks, c)
}

// waive applies the waivers that hold today to checks that did not pass.
func (d *decision) waive() {
	latest := d.now.AddDate(0, 0, d.policy.WaiverDays+1)
	for i := range d.policy.Waivers {
		w := &d.policy.Waivers[i]
		switch {
		case !w.Expires.After(d.now):
			d.note("waiver of %s %s by %s expired", w.Tool, w.Figure, w.By)
			continue
		case w.Expires.After(latest):
			d.note("waiver of %s %s by %s runs longer than waiver_max_days: %d, and is not applied", w.Tool, w.Figure, w.By, d.policy.WaiverDays)
			continue
		}
		for j := range d.verdict.Checks {
			c := &d.verdict.Checks[j]
			if c.Status == Pass || c.Figure != w.Figure || !matches(w.Tool, c.Environment, c.Tool) || c.Informational {
				continue
			}
			if c.Critical {
				d.note("%s is critical and cannot be waived", c.Subject())
				continue
			}
			c.Waived = w
		}
	}
}

func (d *decision) note(format string, args ...any) {
	d.verdict.Notes = append(d.verdict.Notes, plain(fmt.Sprintf(format, args...)))
}

// conclude gives the gate its status, its sentence and its exit code.
func (d *decision) conclude(o Options) {
	v := d.verdict
	v.Status = Pass
	seen, critical := false, false
	for i := range v.Checks {
		c := &v.Checks[i]
		seen = seen || (c.Estimate.N > 0 && !c.Informational)
		if !c.decides() {
			continue
		}
		critical = critical || (c.Critical && c.Status == Inconclusive)
		if c.Status.rank() > v.Status.rank() {
			v.Status = c.Status
		}
	}
	if !seen && v.Status == Pass {
		v.Status = Inconclusive
		d.note("no data: no deciding check has a single call")
	}
	if v.Status == Inconclusive && o.InconclusiveAs != "" {
		switch {
		case o.InconclusiveAs == Pass && (critical || !seen):
			d.note("a critical check or the whole gate has too little data: inconclusive is not taken as a pass")
		default:
			d.note("%s is taken as %s, as asked", Inconclusive, o.InconclusiveAs)
			v.Status = o.InconclusiveAs
		}
	}
	v.Needs = d.orders()
	v.Line = d.line()
	v.ExitCode = o.exitCode(v.Status)
}

// orders are the calls that the undecided checks lack, each once.
func (d *decision) orders() []audit.Order {
	type key struct {
		environment, version, tool string
		mode                       audit.Mode
		figure                     audit.Figure
	}
	most := map[key]int{}
	for i := range d.verdict.Checks {
		if c := &d.verdict.Checks[i]; c.Needs > 0 && c.Status == Inconclusive && c.decides() {
			k := key{c.Environment, c.Version, c.Tool, c.Modes[0], c.Figure}
			most[k] = max(most[k], c.Needs)
		}
	}
	var orders []audit.Order
	for k, n := range most {
		orders = append(orders, audit.Order{Environment: k.environment, Version: k.version, Tool: k.tool, Mode: k.mode, Figure: k.figure, Calls: n})
	}
	slices.SortFunc(orders, func(a, b audit.Order) int {
		return cmp.Or(
			cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Tool, b.Tool),
			cmp.Compare(a.Figure, b.Figure), cmp.Compare(a.Mode, b.Mode),
		)
	})
	return orders
}

// line is the verdict in one sentence: the gravest check, and how many more.
func (d *decision) line() string {
	v := d.verdict
	var worst *Check
	same, decided := 0, 0
	for i := range v.Checks {
		c := &v.Checks[i]
		if !c.decides() {
			continue
		}
		decided++
		if c.Status != v.Status {
			continue
		}
		same++
		if worst == nil || (c.Critical && !worst.Critical) {
			worst = c
		}
	}
	switch {
	case v.Status == Pass || worst == nil:
		return plain(fmt.Sprintf("%s: %d checks decide, run %s", v.Status, decided, d.evidence.Run.ID))
	case same > 1:
		return fmt.Sprintf("%s: %s (%d such checks in all)", v.Status, worst.Sentence(), same)
	}
	return fmt.Sprintf("%s: %s", v.Status, worst.Sentence())
}
