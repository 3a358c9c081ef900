package audit

// RewardClass says in one word how a rehearsed answer differs from the real one.
type RewardClass string

// The classes, gravest first within a kind.
const (
	ClassOptimistic    RewardClass = "optimistic"     // success for a refusal: false success
	ClassPhantomEffect RewardClass = "phantom_effect" // claims a change that was not made
	ClassPessimistic   RewardClass = "pessimistic"    // a refusal for a success
	ClassErrorCode     RewardClass = "error_code"     // both refuse, for different reasons
	ClassMissedEffect  RewardClass = "missed_effect"  // says nothing of a change that was made
	ClassWrongEffect   RewardClass = "wrong_effect"   // claims another change
	ClassMaterial      RewardClass = "material"       // fields that a later step would trip over
	ClassValue         RewardClass = "value"          // values of little weight
	ClassEquivalent    RewardClass = "equivalent"     // cosmetic differences
	ClassMatch         RewardClass = "match"
)

// classOf names a scored verdict's worst fault.
func classOf(v *Verdict) RewardClass {
	switch {
	case v.FalseSuccess:
		return ClassOptimistic
	case v.Scores.PhantomWrite:
		return ClassPhantomEffect
	case v.Rehearsed.IsError() && !v.Real.IsError():
		return ClassPessimistic
	case v.Real.IsError() && v.Real != v.Rehearsed:
		return ClassErrorCode
	case v.Scores.SilentWrite:
		return ClassMissedEffect
	case v.Scores.EffectF1 != nil && *v.Scores.EffectF1 < 1:
		return ClassWrongEffect
	}
	switch v.Severity {
	case S0:
		return ClassMatch
	case S1:
		return ClassEquivalent
	case S2:
		return ClassValue
	case S3, S4, S5:
	}
	return ClassMaterial
}
