package audit

import "understudy/audit/diff"

// severity grades the verdict by its worst fault (design.md 1).
func (j *judgement) severity() Severity {
	v := &j.v
	switch {
	case v.FalseSuccess, v.Scores.PhantomWrite:
		return S5
	case v.Real.IsError() != v.Rehearsed.IsError(), v.Real.IsError() && v.Real != v.Rehearsed:
		return S4
	}
	worst := S0
	if j.recoded || j.cosmetic {
		worst = S1
	}
	if v.Real != v.Rehearsed { // ok for ok_empty
		worst = S3
	}
	if s := &v.Scores; s.SilentWrite || s.EffectF1 != nil && *s.EffectF1 < 1 {
		worst = S3
	}
	for i := range v.Differences {
		worst = max(worst, severityOf(&v.Differences[i]))
	}
	return worst
}

// severityOf grades one difference: S1 what the policy equates, S2 values that
// weigh little, S3 what a later step would trip over.
func severityOf(d *diff.Difference) Severity {
	if d.Cosmetic {
		return S1
	}
	switch d.Kind {
	case diff.Reordered:
		return S1
	case diff.Missing, diff.Extra, diff.TypeChanged, diff.AbsentNull, diff.Inconsistent:
		return S3
	case diff.Changed:
	}
	switch d.Class {
	case diff.Text, diff.Volatile:
		return S2
	case diff.Exact, diff.Echo, diff.Enum, diff.Number, diff.Timestamp, diff.ID:
		return S3
	}
	return S3
}
