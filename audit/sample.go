package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// InclusionFunc gives the probability π in (0,1] with which an action is
// audited. It may look at the rehearsal that was brought along, never at the
// sandbox: π is fixed before anything is executed.
type InclusionFunc func(tool Tool, action *Action) float64

// minInclusion keeps 1/π, and with it the variance of every figure, bounded.
const minInclusion = 0.02

// Stratified audits every write whose rehearsal claims success with low
// confidence or against its siblings, writes at four times the base rate, and
// everything else at the base rate (facts of the field: errors are a few
// percent of calls, false successes hide in the writes).
func Stratified(base float64) InclusionFunc {
	return func(tool Tool, action *Action) float64 {
		if tool.Effect == Read {
			return base
		}
		if r := action.Rehearsal; r != nil {
			unsure := r.Confidence != nil && *r.Confidence < 0.5
			disputed := r.Agreement != nil && *r.Agreement < 0.5
			if unsure || disputed {
				return 1
			}
		}
		return 4 * base
	}
}

// clipInclusion makes any number a usable π.
func clipInclusion(pi float64) float64 {
	if math.IsNaN(pi) || pi <= 0 {
		return minInclusion
	}
	return clip(pi, minInclusion, 1)
}

// Draw is the sampling decision on one key: audited exactly when U < Inclusion.
type Draw struct {
	Key       Digest  `json:"key"`
	Inclusion float64 `json:"inclusion"`
	U         float64 `json:"u"` // HMAC-SHA256(secret, key) as a number in [0,1)
}

// Included reports whether the pair is audited.
func (d Draw) Included() bool { return d.U < d.Inclusion }

// draw decides on a key. Who does not know the secret cannot tell which of its
// outputs are audited; who knows it can check every decision afterwards.
func draw(secret []byte, key Digest, inclusion float64) Draw {
	mac := hmac.New(sha256.New, secret)
	mac.Write(key[:])
	const bits53 = 1 << 53 // the integers that a float64 holds exactly
	u := float64(binary.BigEndian.Uint64(mac.Sum(nil))>>11) / bits53
	return Draw{Key: key, Inclusion: inclusion, U: u}
}
