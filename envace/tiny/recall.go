package tiny

import (
	"strings"

	"understudy/audit"
	"understudy/envace"
)

// Recall tells a trajectory for a rehearsal memory, in words that the policy has: each
// call, and the family of its error where it was refused. With brief, the calls that
// went well alone.
//
//	cancel { user U1 order #01 } error conflict ; refund { user U1 order #01 } ;
func (f Format) Recall(t *envace.Trajectory, rules *audit.Rules, brief bool) string {
	var words []string
	for _, answer := range t.Calls() {
		tokens, err := f.CallTokens(answer.Call)
		if err != nil {
			continue // it cannot be said
		}
		outcome := rules.Of(answer.Call.Tool).Read(answer.Raw).Outcome
		if brief && outcome.Class == audit.Failed {
			continue
		}
		words = append(words, f.Vocabulary.Decode(tokens)...)
		if outcome.Class == audit.Failed {
			words = append(words, "error", string(outcome.Family))
		}
		words = append(words, ";")
	}
	return strings.Join(words, " ")
}

// Count is how many tokens a text of such words is.
func (f Format) Count(text string) int { return len(promptWords(text)) }
