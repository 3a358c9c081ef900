package audit

import (
	"understudy/audit/diff"
)

// Pair is one action with its rehearsal, its observation and the verdict, and
// everything needed to reproduce them. Its Key is the identity of what was
// audited: no clock, serial or worker id takes part in it.
type Pair struct {
	Key         Digest       `json:"key"`
	Episode     string       `json:"episode"`
	PromptGroup string       `json:"prompt_group"`
	Policy      string       `json:"policy"`
	Checkpoint  int64        `json:"checkpoint,omitempty"`
	Environment string       `json:"environment"` // name
	Version     string       `json:"version"`     // of the environment, for people
	EnvDigest   Digest       `json:"environment_digest"`
	Mode        Mode         `json:"mode"`
	Action      Action       `json:"action"`                // with its rehearsal
	Effect      Effect       `json:"effect"`                // of the tool
	Observation *Observation `json:"observation,omitempty"` // nil when nothing was executed
	Twin        *Observation `json:"twin,omitempty"`        // second execution, of adapters not declared deterministic
	Verdict     Verdict      `json:"verdict"`
	Success     *bool        `json:"success,omitempty"` // the episode's terminal task success
}

// Severity grades a verdict (design.md 1). Only scored verdicts have one.
type Severity uint8

// The severity ladder.
const (
	S0 Severity = iota // exact
	S1                 // cosmetic
	S2                 // minor value
	S3                 // material value, shape or id
	S4                 // false error or wrong family
	S5                 // false success or phantom write
)

// Verdict is a pair's comparison, or masked with a reason, which is never a number.
type Verdict struct {
	Masked       MaskReason        `json:"masked,omitempty"` // "" = scored
	MaskDetail   string            `json:"mask_detail,omitempty"`
	Real         Outcome           `json:"real,omitzero"`
	Rehearsed    Outcome           `json:"rehearsed,omitzero"`
	Severity     Severity          `json:"severity"`
	FalseSuccess bool              `json:"false_success"` // the sandbox refuses, the rehearsal says it worked
	Cascaded     bool              `json:"cascaded"`      // after the fork point of an open episode
	Fork         bool              `json:"fork"`          // this pair is the fork point
	Differences  []diff.Difference `json:"differences,omitempty"`
	Flags        []string          `json:"flags,omitempty"` // duplicate_key, approximate, oversize, state_unobservable, coerced, ...
	Scores       Scores            `json:"scores"`
	Evidence     Evidence          `json:"evidence"`
	Rules        Digest            `json:"rules"` // digest of envelope tables and path policy
}

// Scores are the numbers of one scored pair, each in [0,1]; nil = does not apply.
type Scores struct {
	Valid           bool     `json:"valid"`
	Shape           *float64 `json:"shape,omitempty"`        // typed path-pattern Jaccard
	Hallucinated    *float64 `json:"hallucinated,omitempty"` // share of rehearsed paths that are not real
	Omitted         *float64 `json:"omitted,omitempty"`      // share of real paths that were not rehearsed
	LeafF1          *float64 `json:"leaf_f1,omitempty"`
	Exact           *float64 `json:"exact,omitempty"` // 1 when nothing but masked paths differs
	IDIntegrity     *float64 `json:"id_integrity,omitempty"`
	EffectPrecision *float64 `json:"effect_precision,omitempty"`
	EffectRecall    *float64 `json:"effect_recall,omitempty"`
	EffectF1        *float64 `json:"effect_f1,omitempty"`
	EffectSource    string   `json:"effect_source,omitempty"` // echo, block, probe; "" = unobservable
	RealCells       *int     `json:"real_cells,omitempty"`    // |Δ| of the observation
	RehearsedCells  *int     `json:"rehearsed_cells,omitempty"`
	PhantomWrite    bool     `json:"phantom_write"` // claimed, not made
	SilentWrite     bool     `json:"silent_write"`  // made, not claimed
	MaskedWeight    float64  `json:"masked_weight"` // share of leaf weight hidden as noise
	Phi             *float64 `json:"phi,omitempty"` // calibration φ; nil = masked
}

// MaskReason is the closed list of reasons why a pair has no number.
type MaskReason string

// The reasons.
const (
	MaskSandboxFault        MaskReason = "sandbox_fault"
	MaskSandboxUnknown      MaskReason = "sandbox_unknown"      // timed out: it may have happened
	MaskSandboxUnavailable  MaskReason = "sandbox_unavailable"  // could not be opened or reached
	MaskRehearseUnavailable MaskReason = "rehearse_unavailable" // model server down, 500, time-out
	MaskReferenceInvalid    MaskReason = "reference_invalid"    // a recorded success that the sandbox refuses
	MaskKnownDefect         MaskReason = "known_defect"         // of the sandbox, listed
	MaskTransient           MaskReason = "transient"            // the real answer was transient or internal
	MaskHistory             MaskReason = "history_missing"      // earlier actions missing: the pre-state is not reachable
	MaskUnrepresentable     MaskReason = "unrepresentable"      // the rehearsal format cannot say the real answer
	MaskOversize            MaskReason = "oversize"             // the real answer is beyond the limits
	MaskCapture             MaskReason = "capture_integrity"    // a recorded body that was cut or mixed
	MaskUnobservable        MaskReason = "state_unobservable"   // φ only: a write whose effect cannot be seen
	MaskNotSampled          MaskReason = "not_sampled"          // π decided against it
)
