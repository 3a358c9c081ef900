package audit

// The flags that a verdict may carry beside those of audit/diff, which it
// passes on (duplicate_key, approximate, python_repr, ...).
const (
	FlagApproximate       = "approximate"          // an array was paired greedily
	FlagOversize          = "oversize"             // the rehearsal is beyond the limits
	FlagDuplicateKey      = "duplicate_key"        // an object with the same key twice
	FlagUnobservable      = "state_unobservable"   // a write whose claimed effect cannot be seen
	FlagTruncated         = "truncated"            // the model stopped at its length limit
	FlagRepeatedCallID    = "repeated_call_id"     // the source gave one id to several calls
	FlagRepeatedStep      = "repeated_step"        // the source gave one step to several calls
	FlagRepeatedSample    = "repeated_sample"      // two rehearsals claim the same place: one key, two results
	FlagNonFiniteLogProb  = "non_finite_logprob"   // dropped before it was stored
	FlagRecordedDiffers   = "recorded_differs"     // the recorded outcome is not the sandbox's
	FlagRecordedTruncated = "recorded_truncated"   // the recorded answer was cut
	FlagTwinOutcome       = "twin_outcome"         // the sandbox's twins disagree on the outcome
	FlagTranslated        = "id_translated"        // rehearsed ids in the arguments were replaced by the real ones
	FlagMaskCapped        = "masked_weight_capped" // noise beyond 30 % of the weight was scored all the same
	FlagBadStateDelta     = "bad_state_delta"      // the <state_delta> block is not a JSON Patch
	FlagCollapsed         = "collapsed_repeats"    // the pair stands for further identical calls of its message
)
