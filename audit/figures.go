package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"understudy/audit/stat"
)

// Figures are the fidelity of one cell: never one mean alone (design.md 5).
type Figures struct {
	Cell
	Pairs       int                           `json:"pairs"`    // scored, masked and cascaded
	Calls       int                           `json:"calls"`    // with the repeats that pairs stand for
	Scored      int                           `json:"scored"`   // with numbers, before the fork
	Cascaded    int                           `json:"cascaded"` // after it
	Masked      map[MaskReason]int            `json:"masked,omitempty"`
	Ladder      [Severities]int               `json:"ladder"`                // scored pairs by severity
	Matrix      map[string]map[string]float64 `json:"matrix,omitempty"`      // real outcome × rehearsed, weighted by 1/π
	Survival    []stat.SurvivalPoint          `json:"survival,omitempty"`    // of cells without a tool
	Calibration *Calibration                  `json:"calibration,omitempty"` // where rehearsals state a confidence
	Values      []Value                       `json:"values"`
}

// Value is one figure with its interval, n, n_eff and formula.
type Value struct {
	Name string `json:"name"`
	stat.Estimate
}

// MarshalJSON keeps the estimate's own form, with the name beside it.
func (v Value) MarshalJSON() ([]byte, error) {
	inner, err := v.Estimate.MarshalJSON()
	if err != nil {
		return nil, err
	}
	head := append([]byte(`{"name":`), appendJSONString(nil, v.Name)...)
	return append(append(head, ','), inner[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(text []byte) error {
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(text, &named); err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	v.Name = named.Name
	return v.Estimate.UnmarshalJSON(text)
}

// Value finds a figure by name; one that the cell lacks is not defined.
func (f *Figures) Value(name string) stat.Estimate {
	for i := range f.Values {
		if f.Values[i].Name == name {
			return f.Values[i].Estimate
		}
	}
	return stat.Clustered(nil, .95)
}

// MaskedShare is the share of drawn calls that have no number: what bounds the
// honesty of all other figures. What π left out is not masked in this sense.
func (f *Figures) MaskedShare() float64 {
	masked, drawn := 0, f.Calls
	for reason, n := range f.Masked {
		if reason == MaskNotSampled {
			drawn -= n
			continue
		}
		masked += n
	}
	if drawn == 0 {
		return 0
	}
	return float64(masked) / float64(drawn)
}

// Figures computes the figures of every cell. Intervals are 95 %, clustered by
// prompt group; the seed is the bootstrap's.
func (t *Tally) Figures(seed uint64) []Figures {
	cells := t.Cells()
	all := make([]Figures, 0, len(cells))
	for _, cell := range cells {
		all = append(all, figuresOf(cell, t.Groups(cell), seed))
	}
	return all
}

// FiguresOf computes the figures of one cell.
func (t *Tally) FiguresOf(cell Cell, seed uint64) Figures {
	return figuresOf(cell, t.Groups(cell), seed)
}

// figuring computes one cell's figures.
type figuring struct {
	groups   map[string]Counters
	coarse   map[string]Counters // the same for resampling
	sum      Counters
	resample stat.Resample
	out      Figures
}

func figuresOf(cell Cell, groups map[string]Counters, seed uint64) Figures {
	f := figuring{
		groups: groups, coarse: coarsen(groups), sum: make(Counters), out: Figures{Cell: cell},
		resample: stat.Resample{Replicates: 400, Confidence: .95, Seed: seed},
	}
	for _, group := range sortedKeys(groups) {
		f.sum.Merge(groups[group])
	}
	f.counts()
	if cell.Tool == "" {
		f.episodes()
		return f.out
	}
	for _, figure := range FigureNames() {
		f.figure(figure)
	}
	f.confusion()
	f.shares()
	f.calibration()
	return f.out
}

func (f *figuring) counts() {
	f.out.Pairs = f.sum[CountPairs].N
	f.out.Scored, f.out.Cascaded = f.sum[CountScored].N, f.sum[CountCascaded].N
	f.out.Calls = int(f.sum[CountCalls].Sum)
	for name, c := range f.sum {
		if reason, ok := strings.CutPrefix(string(name), "masked/"); ok {
			if f.out.Masked == nil {
				f.out.Masked = make(map[MaskReason]int)
			}
			f.out.Masked[MaskReason(reason)] = int(c.Sum)
		}
	}
	for s := range f.out.Ladder {
		f.out.Ladder[s] = f.sum[SeverityCounter(Severity(s))].N
	}
}

func (f *figuring) add(name string, e stat.Estimate) {
	f.out.Values = append(f.out.Values, Value{name, e})
}

// figure bounds a rate by Wilson on n/deff, and a mean of scores by resampling
// prompt groups.
func (f *figuring) figure(figure Figure) {
	switch figure {
	case FigureValidity, FigureFSR, FigurePhantomSuccess, FigureFalseError, FigureErrorFamily, FigureOutcome,
		FigureExact, FigurePhantomWrite, FigureSilentWrite, FigureMaterial:
		f.rate(string(figure), Counter(figure))
	case FigureShape, FigureLeafF1, FigureIDIntegrity, FigureEffectPrecision, FigureEffectRecall, FigureEffectF1, FigurePhi:
		f.add(string(figure), stat.BootstrapMean(clusters(f.coarse, Counter(figure)), f.resample))
	}
}

func (f *figuring) rate(name string, counter Counter) {
	f.add(name, stat.ClusteredWilson(clusters(f.groups, counter), f.resample.Confidence))
}

func (f *figuring) mean(counter Counter) {
	if data := clusters(f.coarse, counter); len(data) > 0 {
		f.add(string(counter), stat.BootstrapMean(data, f.resample))
	}
}

// confusion reads the outcome matrix: balanced accuracy, MCC, and macro F1 over
// the families of pairs where both sides are errors.
func (f *figuring) confusion() {
	var labels []string
	index := make(map[string]int)
	for _, label := range OutcomeLabels() {
		for name := range f.sum {
			r, h, ok := confusionOf(name)
			if ok && (r == label || h == label) {
				index[label] = len(labels)
				labels = append(labels, label)
				break
			}
		}
	}
	f.out.Matrix = make(map[string]map[string]float64)
	var whole, families []stat.Confusion
	for _, group := range sortedKeys(f.coarse) {
		all, both := stat.NewConfusion(len(labels)), stat.NewConfusion(len(labels))
		counted := false
		for name, c := range f.coarse[group] {
			r, h, ok := confusionOf(name)
			if !ok {
				continue
			}
			counted = true
			all[index[r]][index[h]] += c.Weight
			if isFamily(r) && isFamily(h) {
				both[index[r]][index[h]] += c.Weight
			}
			if f.out.Matrix[r] == nil {
				f.out.Matrix[r] = make(map[string]float64)
			}
			f.out.Matrix[r][h] += c.Weight
		}
		if counted {
			whole, families = append(whole, all), append(families, both)
		}
	}
	f.add("balanced_accuracy", stat.OfConfusion("balanced accuracy", whole, stat.Confusion.BalancedAccuracy, f.resample))
	f.add("mcc", stat.OfConfusion("MCC", whole, stat.Confusion.MCC, f.resample))
	f.add("error_family_f1", stat.OfConfusion("macro F1", families, stat.Confusion.MacroF1, f.resample))
}

// lifetimeGroup names a prompt group for stat.KaplanMeier, which takes a lifetime without a
// name for one by itself: the prompt group without a name is a group, too.
func lifetimeGroup(promptGroup string) string { return "group " + promptGroup }

// lifetimes are those of a prompt group's episodes.
func (c Counters) lifetimes(group string) (all []stat.Lifetime) {
	for _, name := range c.Names() {
		rest, ok := strings.CutPrefix(string(name), "survival/")
		if !ok {
			continue
		}
		k, err := strconv.Atoi(rest)
		if err != nil {
			continue
		}
		for i := range c[name].N {
			all = append(all, stat.Lifetime{Time: float64(k), Event: i < int(c[name].Sum), Group: lifetimeGroup(group)})
		}
	}
	return all
}

func confusionOf(name Counter) (truth, rehearsed string, ok bool) {
	rest, ok := strings.CutPrefix(string(name), "confusion/")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

func isFamily(label string) bool { return label != string(OK) && label != string(OKEmpty) }

// shares are the figures beside the family of FigureNames: strata of effects,
// invented and forgotten paths, and how much of the judgement is blind.
func (f *figuring) shares() {
	for _, stratum := range Strata() {
		for _, figure := range []Figure{FigureEffectPrecision, FigureEffectRecall, FigureEffectF1} {
			f.mean(EffectCounter(figure, stratum))
		}
	}
	for _, counter := range []Counter{CountHallucinated, CountOmitted, CountMaskedWeight} {
		f.mean(counter)
	}
	for _, counter := range []Counter{
		CountUnobservable, CountApproximate, CountOversize, CountRightByWrong,
		CanaryCounter(SchemaLevel), CanaryCounter(DomainLevel),
	} {
		if len(clusters(f.groups, counter)) > 0 {
			f.rate(string(counter), counter)
		}
	}
}

// calibration judges the rehearsals' confidence that they are below S3.
func (f *figuring) calibration() {
	var forecasts []stat.Forecast
	for _, group := range sortedKeys(f.coarse) {
		for bin := range ConfidenceBins {
			if c := f.coarse[group][ConfidenceCounter(bin)]; c.N > 0 {
				forecasts = append(forecasts, stat.Forecast{P: (float64(bin) + .5) / ConfidenceBins, N: c.N, Hits: int(c.Sum), Group: group})
			}
		}
	}
	if len(forecasts) == 0 {
		return
	}
	f.out.Calibration = NewCalibration(f.groups)
	f.mean(CountBrier)
	f.add("calibration_error", stat.DebiasedCalibration(forecasts, 0, f.resample))
	f.add("confidence_auc", stat.AUC(forecasts, f.resample.Confidence))
}

// episodes are the figures of whole rollouts: survival to the first S3+, and
// what the imagined success is worth.
func (f *figuring) episodes() {
	var lifetimes []stat.Lifetime
	for _, group := range sortedKeys(f.groups) {
		lifetimes = append(lifetimes, f.groups[group].lifetimes(group)...)
	}
	survival := stat.KaplanMeier(lifetimes, f.resample.Confidence)
	f.out.Survival = survival.Points
	for _, k := range []int{1, 5, 10} {
		f.add("survival_"+strconv.Itoa(k), survival.At(float64(k)))
	}
	f.add("survival_mean_10", survival.RMST(10))
	imagined, executed := clusters(f.groups, CountImagined), clusters(f.groups, CountExecuted)
	f.rate(string(CountImagined), CountImagined)
	f.rate(string(CountExecuted), CountExecuted)
	f.add("imagination_gap", stat.PairedDifference(imagined, executed, f.resample.Confidence))
	f.rate(string(CountOptimistic), CountOptimistic)
	f.add("consistency_ratio", stat.Ratio(executed, imagined, f.resample.Confidence))
	f.rate(string(CountRightByWrongTask), CountRightByWrongTask)
}
