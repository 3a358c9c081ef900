// Package stat holds the statistics that the audit's figures need: intervals
// for clustered proportions, calibration error, tests that stay valid under
// repeated looks, drift and rank agreement. It knows nothing of pairs or
// verdicts; numbers go in, an Estimate comes out.
//
// Every estimate carries n, n_eff and the name of its formula, because two
// conventions of one figure cannot be told apart by the number alone.
//
// One rule covers bad input everywhere: nothing panics and nothing guesses.
// An input that breaks a function's contract (NaN, infinity, a negative count,
// more successes than trials) or that holds no information (n = 0, all weights
// zero) gives an estimate that is not Defined: its Value is NaN, its bounds
// cover everything that is possible, and Reason says why. JSON writes NaN and
// infinities as null.
//
// Quantiles come from gonum. gonum's stat.Kendall is wrong with ties and its
// stat.ROC panics on unsorted input, so rank statistics are written here.
package stat
