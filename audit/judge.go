package audit

import (
	"slices"

	"understudy/audit/diff"
)

// Case is one rehearsal beside what the sandbox did: all that a verdict is a
// function of.
type Case struct {
	Environment string // name
	Version     string
	Mode        Mode
	Tool        Tool
	Call        Call
	Rehearsal   *Rehearsal
	Observation *Observation
	Twin        *Observation
	Recorded    *Recorded
	State       StateFunc       // before the call; nil = not visible
	IDs         *diff.Bijection // of the episode so far; nil = each answer stands alone
	probed      *claim          // by reads after the write
	reads       cells           // what those reads really saw change
}

// Judge compares a rehearsed answer with a real one: outcome first, then fields,
// then effect. It is a pure function of the case and the rules, but that it
// binds the ids that it meets in Case.IDs.
func (r *Rules) Judge(c *Case) Verdict {
	j := judgement{rules: r, tool: r.Of(c.Tool.Name), at: c, ids: c.IDs, v: Verdict{Rules: r.digest}}
	if j.ids == nil {
		j.ids = &diff.Bijection{}
	}
	if c.Observation == nil {
		return j.masked(MaskSandboxUnavailable, "nothing was executed")
	}
	j.v.Evidence = c.Observation.Evidence
	if reason, detail := j.readReal(); reason != "" {
		return j.masked(reason, detail)
	}
	if reason, detail := j.readRehearsed(); reason != "" {
		return j.masked(reason, detail)
	}
	j.compareBodies()
	if reason, detail := j.excuse(); reason != "" {
		return j.masked(reason, detail)
	}
	j.compareEffects()
	j.v.FalseSuccess = j.v.Real.IsError() && !j.v.Rehearsed.IsError()
	j.v.Severity = j.severity()
	j.scorePhi()
	return j.v
}

// judgement is a verdict in the making.
type judgement struct {
	rules           *Rules
	tool            *ToolRules
	at              *Case
	real, rehearsed Answer
	ids             *diff.Bijection
	silent          bool // the tool answered nothing at all, and that is no error
	recoded         bool // the rehearsal is encoded in another way than the real answer
	cosmetic        bool // error bodies of one family that differ
	v               Verdict
}

// mask makes the verdict one that has no number.
func (v *Verdict) mask(reason MaskReason, detail string) {
	*v = Verdict{
		Masked: reason, MaskDetail: detail, Flags: v.Flags, Rules: v.Rules,
		Real: v.Real, Rehearsed: v.Rehearsed, Evidence: v.Evidence,
	}
}

// Excuse takes a verdict out of every figure after it was judged, for a reason
// that people gave.
func (v *Verdict) Excuse(reason MaskReason, detail string) { v.mask(reason, detail) }

func (j *judgement) masked(reason MaskReason, detail string) Verdict {
	j.v.mask(reason, detail)
	return j.v
}

func (j *judgement) flag(flags ...string) {
	for _, f := range flags {
		if !slices.Contains(j.v.Flags, f) {
			j.v.Flags = append(j.v.Flags, f)
		}
	}
}

// readReal understands the observation, and masks what cannot be a reference.
func (j *judgement) readReal() (MaskReason, string) {
	o := j.at.Observation
	switch o.Status {
	case StatusOK, StatusRefused, StatusInvalid:
	case StatusFault:
		return MaskSandboxFault, o.message()
	case StatusUnknown:
		return MaskSandboxUnknown, o.message()
	default:
		return MaskSandboxFault, "the sandbox gave the status " + string(o.Status)
	}
	j.real = j.tool.Read(o.Raw)
	if j.real.Oversize {
		return MaskOversize, "the real answer: " + j.real.Message
	}
	if !j.real.Valid && o.Status == StatusOK && len(o.Raw) > 0 {
		return MaskCapture, "the real answer: " + j.real.Message
	}
	j.v.Real = realOutcome(o, &j.real)
	if j.silent = !j.real.Valid && o.Status == StatusOK; j.silent {
		j.v.Real = Outcome{Class: OKEmpty}
	}
	recorded := j.recordedOutcome()
	j.compareReferences(recorded)
	switch {
	case j.v.Real.Family == Transient || j.v.Real.Family == Internal:
		return MaskTransient, "the real answer is " + j.v.Real.String()
	case j.v.Real.IsError() && recorded.Class != "" && !recorded.IsError():
		return MaskReferenceInvalid, "the source recorded a success that the sandbox refuses: " + o.message()
	case !j.v.Real.IsError() && j.at.Mode == Canary:
		return MaskReferenceInvalid, "the sandbox does not refuse the canary"
	case j.rules.spec.Format == ExecutionResult && !j.v.Real.IsError() && !representable(j.real.Body):
		return MaskUnrepresentable, "the rehearsal format has no " + j.real.Body.Type().String() + " like this"
	}
	return "", ""
}

// realOutcome trusts the sandbox's status, and its family before the text's.
func realOutcome(o *Observation, a *Answer) Outcome {
	if o.Status == StatusOK {
		return a.Outcome
	}
	switch {
	case o.Error != nil && o.Error.Family != "":
		return Outcome{Failed, o.Error.Family}
	case a.Outcome.IsError() && a.Valid:
		return a.Outcome
	case o.Status == StatusInvalid:
		return Outcome{Failed, SchemaInvalid}
	default:
		return Outcome{Failed, Precondition}
	}
}

// compareReferences flags where the twin or the recorded answer has another outcome.
func (j *judgement) compareReferences(recorded Outcome) {
	if twin := j.at.Twin; twin != nil {
		answer := j.tool.Read(twin.Raw)
		if realOutcome(twin, &answer) != j.v.Real {
			j.flag(FlagTwinOutcome)
		}
	}
	if recorded.Class != "" && recorded.IsError() != j.v.Real.IsError() {
		j.flag(FlagRecordedDiffers)
	}
}

// recordedOutcome is what the source says happened; it has no class where the
// source says nothing, or nothing whole.
func (j *judgement) recordedOutcome() Outcome {
	rec := j.at.Recorded
	if rec == nil {
		return Outcome{}
	}
	answer := j.tool.Read(rec.Raw)
	if rec.Failed != nil {
		if !*rec.Failed {
			return Outcome{Class: OK}
		}
		return Outcome{Failed, answer.Outcome.Family}
	}
	if !answer.Valid {
		j.flag(FlagRecordedTruncated)
		return Outcome{}
	}
	return answer.Outcome
}

// representable reports whether EnvACE's <execution_result> can hold the value:
// a non-empty object, or an array.
func representable(v diff.Value) bool {
	switch v.Type() {
	case diff.TypeObject:
		return v.Len() > 0
	case diff.TypeArray:
		return true
	case diff.TypeAbsent, diff.TypeNull, diff.TypeBool, diff.TypeNumber, diff.TypeString:
		return false
	}
	return false
}

// readRehearsed understands the rehearsal.
func (j *judgement) readRehearsed() (MaskReason, string) {
	r := j.at.Rehearsal
	if r == nil {
		return MaskRehearseUnavailable, "there is no rehearsal"
	}
	if r.Unavailable != "" {
		return MaskRehearseUnavailable, r.Unavailable
	}
	j.rehearsed = j.tool.Read(r.Raw)
	if j.silent && len(r.Raw) == 0 {
		j.rehearsed = Answer{Valid: true, Outcome: Outcome{Class: OKEmpty}} // silence is what was to be foretold
	}
	j.v.Rehearsed = j.tool.withFlag(&j.rehearsed, r.Failed)
	j.v.Scores.Valid = j.rehearsed.Valid
	if j.rehearsed.Oversize {
		j.flag(FlagOversize)
	}
	if r.Truncated {
		j.flag(FlagTruncated)
	}
	for _, flag := range j.rehearsed.Flags {
		if !slices.Contains(j.real.Flags, flag) && !j.v.Rehearsed.IsError() {
			j.flag(flag)
			j.recoded = true
		}
	}
	j.reconcile()
	return "", ""
}

// withFlag lets a source's own error flag decide the class of an answer.
func (r *ToolRules) withFlag(a *Answer, failed *bool) Outcome {
	switch {
	case failed == nil || *failed == a.Outcome.IsError() || !a.Valid:
		return a.Outcome
	case *failed:
		return Outcome{Failed, r.inference.Text(a.Body.Text() + messageOf(a.Body))}
	case r.isEmpty(a.Body):
		return Outcome{Class: OKEmpty}
	default:
		return Outcome{Class: OK}
	}
}

// reconcile looks at both errors with the same eyes: a sandbox declares its
// families, a rehearsal may only show a text. Where that text reads as the real
// text does, it is the same family.
func (j *judgement) reconcile() {
	if !j.v.Real.IsError() || !j.v.Rehearsed.IsError() || !j.rehearsed.Valid {
		return
	}
	refused := true
	if j.tool.withFlag(&j.real, &refused) == j.v.Rehearsed && j.rehearsed.Inferred == j.real.Inferred {
		j.v.Rehearsed = j.v.Real
	}
}

// compareBodies compares field by field where both sides succeeded.
func (j *judgement) compareBodies() {
	if j.v.Real.IsError() && j.v.Rehearsed.IsError() {
		j.cosmetic = !diff.Equal(j.real.Body, j.rehearsed.Body)
		return
	}
	if j.v.Real.IsError() || j.v.Rehearsed.IsError() {
		return
	}
	paths := j.rules.withSurrogates(j.at.Tool.Name, j.surrogates())
	c := diff.Compare(paths, j.real.Body, j.rehearsed.Body, j.ids)
	j.v.Differences = c.Differences
	j.flag(c.Flags...)
	s := &j.v.Scores
	s.Shape, s.Hallucinated, s.Omitted = new(c.Shape), new(c.Hallucinated), new(c.Omitted)
	s.LeafF1, s.Exact = new(c.F1), new(indicator(c.Equal()))
	s.MaskedWeight = c.MaskedWeight
	if c.IDs > 0 {
		s.IDIntegrity = new(float64(c.ConsistentIDs) / float64(c.IDs))
	}
	if j.rules.noise.capped(j.at.Tool.Name) {
		j.flag(FlagMaskCapped)
	}
}

// excuse masks a verdict that rests on a known defect of the sandbox.
func (j *judgement) excuse() (MaskReason, string) {
	d := j.rules.defect(j.at.Environment, j.at.Version, j.at.Tool.Name)
	if d == nil {
		return "", ""
	}
	if d.Pointer == "" {
		return MaskKnownDefect, d.Note
	}
	for i := range j.v.Differences {
		if j.v.Differences[i].Pattern == d.Pointer || j.v.Differences[i].Pointer == d.Pointer {
			return MaskKnownDefect, d.Note
		}
	}
	return "", ""
}

// scorePhi computes φ, or says why there is none.
func (j *judgement) scorePhi() {
	if j.v.Scores.PhiMask != "" && OutcomeGrade(j.v.Real, j.v.Rehearsed) > 0 {
		return
	}
	j.v.Scores.PhiMask = ""
	phi := componentsOf(&j.v, j.writes()).Phi()
	j.v.Scores.Phi = &phi
}
