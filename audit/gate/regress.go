package gate

// Windows is how many decisive verdicts in a row must FAIL before a regression
// is announced: one bad look is no news yet.
const Windows = 2

// Regressed reports whether a history of verdicts of one gate policy, newest
// first, has just turned from PASS to FAIL and stayed there for Windows decisive
// verdicts. It holds at one point of the history only, so that each regression
// is announced once. INCONCLUSIVE and ERROR decide nothing and are passed over.
func Regressed(newestFirst []Status) bool {
	failed := 0
	for i, s := range newestFirst {
		decisive := s == Pass || s == Fail
		switch {
		case i == 0 && s != Fail:
			return false
		case !decisive:
		case s == Fail:
			failed++
		default:
			return failed == Windows
		}
	}
	return false
}
