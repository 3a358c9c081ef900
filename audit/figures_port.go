package audit

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"understudy/audit/stat"
)

// Figure names a figure that is a mean of one value in [0,1] per pair, so that
// it can be counted per prompt group and bounded (design.md 5).
type Figure string

// The figures. The comment says which pairs count and what is averaged.
const (
	FigureValidity        Figure = "validity"         // all scored: the rehearsal parses and fits the envelope
	FigureFSR             Figure = "fsr"              // real error: rehearsed ok. False-success rate
	FigurePhantomSuccess  Figure = "phantom_success"  // rehearsed ok: real error
	FigureFalseError      Figure = "false_error"      // real ok: rehearsed error
	FigureErrorFamily     Figure = "error_family"     // both error: same family
	FigureOutcome         Figure = "outcome"          // all scored: same class, and same family of errors
	FigureShape           Figure = "shape"            // where scored: typed path Jaccard
	FigureLeafF1          Figure = "leaf_f1"          // where scored
	FigureExact           Figure = "exact"            // where scored: nothing but masked paths differs
	FigureIDIntegrity     Figure = "id_integrity"     // where scored
	FigureEffectPrecision Figure = "effect_precision" // where scored
	FigureEffectRecall    Figure = "effect_recall"    // where scored
	FigureEffectF1        Figure = "effect_f1"        // where scored
	FigurePhantomWrite    Figure = "phantom_write"    // rehearsed change: none was made
	FigureSilentWrite     Figure = "silent_write"     // real change: none was rehearsed
	FigureMaterial        Figure = "material"         // all scored: severity S3 or worse
	FigurePhi             Figure = "phi"              // where not masked: calibration φ
)

// FigureNames lists every figure in the order of reports.
func FigureNames() []Figure {
	return []Figure{
		FigureValidity, FigureFSR, FigurePhantomSuccess, FigureFalseError, FigureErrorFamily, FigureOutcome,
		FigureShape, FigureLeafF1, FigureExact, FigureIDIntegrity, FigureEffectPrecision, FigureEffectRecall,
		FigureEffectF1, FigurePhantomWrite, FigureSilentWrite, FigureMaterial, FigurePhi,
	}
}

// LowerIsBetter reports whether the figure counts a fault.
func (f Figure) LowerIsBetter() bool {
	switch f {
	case FigureFSR, FigurePhantomSuccess, FigureFalseError, FigurePhantomWrite, FigureSilentWrite, FigureMaterial:
		return true
	case FigureValidity, FigureErrorFamily, FigureOutcome, FigureShape, FigureLeafF1, FigureExact, FigureIDIntegrity,
		FigureEffectPrecision, FigureEffectRecall, FigureEffectF1, FigurePhi:
		return false
	}
	return false
}

// FigureValues yields each figure that the pair counts in with its value in
// [0,1]: the one definition behind rollups, figures and gates. A masked pair
// and a cascaded one (its history had already forked) count in none.
func FigureValues(p Pair) iter.Seq2[Figure, float64] {
	return func(yield func(Figure, float64) bool) {
		v := p.Verdict
		if v.Masked != "" || v.Cascaded {
			return
		}
		for _, fv := range append(outcomeValues(v), scoreValues(v.Scores)...) {
			if !yield(fv.figure, fv.value) {
				return
			}
		}
	}
}

// figureValue is one figure's value for one pair.
type figureValue struct {
	figure Figure
	value  float64
}

// outcomeValues are the figures that follow from outcomes and severity.
func outcomeValues(v Verdict) []figureValue {
	realError, rehearsedError := v.Real.Class == Failed, v.Rehearsed.Class == Failed
	values := []figureValue{
		{FigureValidity, indicator(v.Scores.Valid)},
		{FigureOutcome, indicator(v.Real == v.Rehearsed)},
		{FigureMaterial, indicator(v.Severity >= S3)},
	}
	if realError {
		values = append(values, figureValue{FigureFSR, indicator(!rehearsedError)})
	} else {
		values = append(values, figureValue{FigureFalseError, indicator(rehearsedError)})
	}
	if !rehearsedError {
		values = append(values, figureValue{FigurePhantomSuccess, indicator(realError)})
	}
	if realError && rehearsedError {
		values = append(values, figureValue{FigureErrorFamily, indicator(v.Real.Family == v.Rehearsed.Family)})
	}
	return values
}

// scoreValues are the figures that average a score where there is one.
func scoreValues(s Scores) []figureValue {
	var values []figureValue
	add := func(f Figure, score *float64) {
		if score != nil {
			values = append(values, figureValue{f, *score})
		}
	}
	add(FigureShape, s.Shape)
	add(FigureLeafF1, s.LeafF1)
	add(FigureExact, s.Exact)
	add(FigureIDIntegrity, s.IDIntegrity)
	add(FigureEffectPrecision, s.EffectPrecision)
	add(FigureEffectRecall, s.EffectRecall)
	add(FigureEffectF1, s.EffectF1)
	add(FigurePhi, s.Phi)
	if s.RehearsedCells != nil && *s.RehearsedCells > 0 {
		values = append(values, figureValue{FigurePhantomWrite, indicator(s.PhantomWrite)})
	}
	if s.RealCells != nil && *s.RealCells > 0 && s.RehearsedCells != nil {
		values = append(values, figureValue{FigureSilentWrite, indicator(s.SilentWrite)})
	}
	return values
}

func indicator(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// MaxInclusionWeight caps 1/π, so that one rarely sampled pair cannot carry a
// figure or a reward (design.md 5 and 6).
const MaxInclusionWeight = 10

// InclusionWeight is min(1/π, MaxInclusionWeight) for the logged inclusion
// probability π. An unset, impossible or non-finite π weighs 1: the pair was
// audited unconditionally, as far as anybody logged.
func InclusionWeight(inclusion float64) float64 {
	if !(inclusion > 0 && inclusion < 1) {
		return 1
	}
	return min(1/inclusion, MaxInclusionWeight)
}

// RunFacts says what a run audited: what a gate must know before it compares.
type RunFacts struct {
	ID           string            `json:"id"`
	Policy       string            `json:"policy"`
	Checkpoint   int64             `json:"checkpoint,omitempty"`
	Environments []EnvironmentInfo `json:"environments"` // every environment version that its pairs name, sorted by name then version
	WireAPIs     []string          `json:"wire_apis"`    // of its episodes, sorted: chat, responses, completions, engine, recorded
	// Rules are, by the name of the environment, the digests of the rules that its pairs were judged by, sorted;
	// several where rules changed, or noise was marked, between two audits of one run.
	Rules   map[string][]Digest `json:"rules,omitempty"`
	Tags    []string            `json:"tags,omitempty"`
	Started time.Time           `json:"started,omitzero"`
}

// OtherRules is the first environment, by name, whose answers two runs judged by
// different rules; "" = there is none. An environment that one of them does not have is
// passed over.
func (f *RunFacts) OtherRules(o *RunFacts) string {
	for _, environment := range slices.Sorted(maps.Keys(f.Rules)) {
		if other, shared := o.Rules[environment]; shared && !slices.Equal(f.Rules[environment], other) {
			return environment
		}
	}
	return ""
}

// ToolCounts is one tool's share of a run: how many pairs, how many masked,
// and each figure's sums per prompt group.
type ToolCounts struct {
	Environment string             `json:"environment"` // name
	Version     string             `json:"version"`     // of the environment
	Tool        string             `json:"tool"`
	Mode        Mode               `json:"mode"`
	Pairs       int                `json:"pairs"` // scored and masked, cascaded ones not
	Masked      map[MaskReason]int `json:"masked,omitempty"`
	// Unobservable counts the scored writes whose claimed effect cannot be seen:
	// they are in no effect figure, and they are no match.
	Unobservable int `json:"unobservable,omitempty"`
	// Unknown counts the scored calls that the environment knows no tool for.
	Unknown int                       `json:"unknown,omitempty"`
	Groups  map[Figure][]stat.Cluster `json:"groups"` // sorted by Group; weights are InclusionWeight
}

// Finding is one kind of difference of a run: all pairs of a tool that differ
// at the same path pattern in the same way, with a few of the worst.
type Finding struct {
	Fingerprint string   `json:"fingerprint"` // stable across runs: Fingerprint(tool, pattern, kind)
	Environment string   `json:"environment"`
	Tool        string   `json:"tool"`
	Pattern     string   `json:"pattern"` // JSON Pointer with "*"; "" = the outcome itself
	Kind        string   `json:"kind"`    // of the difference, or false_success, false_error, phantom_write, ...
	Severity    Severity `json:"severity"`
	Count       int      `json:"count"`
	Samples     []Sample `json:"samples,omitempty"` // at most five, worst first
}

// Sample is one example of a finding.
type Sample struct {
	Pair      Digest `json:"pair"`
	Pointer   string `json:"pointer"`
	Rehearsed string `json:"rehearsed"` // JSON text, cut to a few hundred bytes
	Real      string `json:"real"`
}

// FigureSource reads what a gate decides on.
type FigureSource interface {
	// Run finds a run by id, by "tag:NAME" (the newest run so tagged), or by
	// "auto:RUN" (the newest run before RUN that passed its gate on the same
	// environment versions, wire APIs and rules). What is not found is an *Error with
	// CodeNotFound; a store that does not answer is CodeInfrastructure.
	Run(ctx context.Context, ref string) (RunFacts, error)
	// Counts returns one entry per environment version × tool × mode, sorted.
	Counts(ctx context.Context, run string) ([]ToolCounts, error)
	// Findings returns a run's findings, gravest and most frequent first, at
	// most limit of them.
	Findings(ctx context.Context, run string, limit int) ([]Finding, error)
}

// Order asks for more audited calls of one tool.
type Order struct {
	Environment string `json:"environment"`
	Version     string `json:"version,omitempty"`
	Tool        string `json:"tool"`
	Mode        Mode   `json:"mode"`
	Figure      Figure `json:"figure"` // the calls must count in it: fsr needs calls that the sandbox refuses
	Calls       int    `json:"calls"`
}

// Scheduler buys samples: it queues new audits for a run and returns how many
// calls were really queued (fewer when the sources run out). The same order
// repeated while it is still open queues nothing.
type Scheduler interface {
	Schedule(ctx context.Context, run string, orders []Order) (queued int, err error)
}
