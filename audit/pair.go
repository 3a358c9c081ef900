package audit

import (
	"strconv"

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
	Success     *bool        `json:"success,omitempty"`  // the episode's terminal task success, as its source saw it (in the rehearsed world, for a rollout)
	Executed    *bool        `json:"executed,omitempty"` // the same by the sandbox's terminal checks after the last action; nil = not checked
	Repeats     int          `json:"repeats,omitempty"`  // further calls of the same message that this pair stands for
}

// TaskSuccess is the terminal task success that figures are split by: the
// executed one where it is known, else the source's; nil when neither is.
func (p *Pair) TaskSuccess() *bool {
	if p.Executed != nil {
		return p.Executed
	}
	return p.Success
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

// Severities is how many rungs the ladder has.
const Severities = int(S5) + 1

// String is S0 to S5.
func (s Severity) String() string { return "S" + strconv.Itoa(int(s)) }

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
	Claimed      diff.Patch        `json:"claimed,omitzero"` // state cells that the rehearsal says it changed; nil = not known
	Rules        Digest            `json:"rules"`            // digest of envelope tables, path policy, echo maps and learned noise
}

// Scored reports whether the verdict has numbers.
func (v *Verdict) Scored() bool { return v.Masked == "" }

// Scores are the numbers of one scored pair, each in [0,1]; nil = does not apply.
type Scores struct {
	Valid           bool         `json:"valid"`
	Shape           *float64     `json:"shape,omitempty"`        // typed path-pattern Jaccard
	Hallucinated    *float64     `json:"hallucinated,omitempty"` // share of rehearsed paths that are not real
	Omitted         *float64     `json:"omitted,omitempty"`      // share of real paths that were not rehearsed
	LeafF1          *float64     `json:"leaf_f1,omitempty"`
	Exact           *float64     `json:"exact,omitempty"` // 1 when nothing but masked paths differs
	IDIntegrity     *float64     `json:"id_integrity,omitempty"`
	EffectPrecision *float64     `json:"effect_precision,omitempty"`
	EffectRecall    *float64     `json:"effect_recall,omitempty"`
	EffectF1        *float64     `json:"effect_f1,omitempty"`
	EffectSource    EffectSource `json:"effect_source,omitempty"` // "" = unobservable or not a write
	RealCells       *int         `json:"real_cells,omitempty"`    // |Δ| of the observation
	RehearsedCells  *int         `json:"rehearsed_cells,omitempty"`
	PhantomWrite    bool         `json:"phantom_write"` // claimed, not made
	SilentWrite     bool         `json:"silent_write"`  // made, not claimed
	MaskedWeight    float64      `json:"masked_weight"` // share of leaf weight hidden as noise
	Phi             *float64     `json:"phi,omitempty"` // calibration φ; nil = masked, PhiMask says why
	PhiMask         MaskReason   `json:"phi_mask,omitempty"`
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
	MaskNoise               MaskReason = "noise"                // it differs only where somebody marked noise
	MaskOverLimit           MaskReason = "over_limit"           // more calls in one message than are audited; Repeats counts them
	MaskOverBudget          MaskReason = "over_budget"          // the sandbox seconds of the training step are used up
)

// The reasons for which a reward has no number although its pair may have one.
const (
	MaskHeldOut      MaskReason = "held_out"      // a tool whose rewards are withheld, so that fidelity on it stays a fair measure
	MaskCanary       MaskReason = "canary"        // a call of the canary battery: must never be trained on
	MaskNotRehearsal MaskReason = "not_rehearsal" // an ACT output
	MaskCascaded     MaskReason = "cascaded"      // the two worlds had forked before: no single answer to blame
	MaskConflict     MaskReason = "conflict"      // another output was paid at this place already
)

// MaskReasons lists every reason of a verdict in a stable order.
func MaskReasons() []MaskReason {
	return []MaskReason{
		MaskSandboxFault, MaskSandboxUnknown, MaskSandboxUnavailable, MaskRehearseUnavailable,
		MaskReferenceInvalid, MaskKnownDefect, MaskTransient, MaskHistory, MaskUnrepresentable,
		MaskOversize, MaskCapture, MaskUnobservable, MaskNotSampled, MaskNoise, MaskOverLimit, MaskOverBudget,
	}
}

// Infrastructure reports whether the reason is an outage that another attempt
// may not meet: a store may let a later scored result replace it.
func (r MaskReason) Infrastructure() bool {
	switch r {
	case MaskSandboxFault, MaskSandboxUnknown, MaskSandboxUnavailable, MaskRehearseUnavailable:
		return true
	case MaskReferenceInvalid, MaskKnownDefect, MaskTransient, MaskHistory, MaskUnrepresentable,
		MaskOversize, MaskCapture, MaskUnobservable, MaskNotSampled, MaskNoise, MaskOverLimit, MaskOverBudget,
		MaskHeldOut, MaskCanary, MaskNotRehearsal, MaskCascaded, MaskConflict:
		return false
	}
	return false
}

// EffectSource says where the claimed effect of a rehearsal was read.
type EffectSource string

// The sources of a claimed effect, never averaged together.
const (
	EffectByEcho    EffectSource = "echo"    // response paths that equal state cells
	EffectByBlock   EffectSource = "block"   // a <state_delta> block
	EffectByProbe   EffectSource = "probe"   // reads after the write
	EffectByOutcome EffectSource = "outcome" // a rehearsed error claims that nothing changed
)
