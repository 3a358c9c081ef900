package stat

import (
	"encoding/json"
	"fmt"
	"math"
)

// Estimate is a number with what is needed to trust or to doubt it.
type Estimate struct {
	Value      float64 // NaN when the estimate is not defined
	Lo         float64 // lower bound; -Inf when nothing bounds it
	Hi         float64 // upper bound; +Inf when nothing bounds it
	Confidence float64 // two-sided, such as 0.95
	N          int     // observations
	NEff       float64 // independent observations that carry the same information
	Clusters   int     // prompt groups; 0 = not clustered
	Method     string  // the formula, such as "Wilson on n/deff"
	Reason     string  // why Value is not defined; "" when it is
}

// Defined reports whether the estimate has a value.
func (e Estimate) Defined() bool { return e.Reason == "" && !math.IsNaN(e.Value) }

// String prints the number with n, n_eff and the formula beside it.
func (e Estimate) String() string {
	if !e.Defined() {
		return fmt.Sprintf("undefined (%s), n=%d, %s", e.Reason, e.N, e.Method)
	}
	return fmt.Sprintf("%.4g [%.4g, %.4g] at %.4g%%, n=%d, n_eff=%.4g, %s",
		e.Value, e.Lo, e.Hi, 100*e.Confidence, e.N, e.NEff, e.Method)
}

// estimateJSON is the wire form: null stands for NaN and for an open bound.
type estimateJSON struct {
	Value      *float64 `json:"value"`
	Lo         *float64 `json:"lo"`
	Hi         *float64 `json:"hi"`
	Confidence float64  `json:"confidence"`
	N          int      `json:"n"`
	NEff       float64  `json:"n_eff"`
	Clusters   int      `json:"clusters,omitempty"`
	Method     string   `json:"method"`
	Reason     string   `json:"reason,omitempty"`
}

// MarshalJSON writes what is not finite as null.
func (e Estimate) MarshalJSON() ([]byte, error) {
	nEff := e.NEff
	if !finite(nEff) {
		nEff = 0
	}
	return json.Marshal(estimateJSON{
		Value: finiteOrNil(e.Value), Lo: finiteOrNil(e.Lo), Hi: finiteOrNil(e.Hi),
		Confidence: e.Confidence, N: e.N, NEff: nEff, Clusters: e.Clusters, Method: e.Method, Reason: e.Reason,
	})
}

// UnmarshalJSON reads null as NaN (value) or as an open bound.
func (e *Estimate) UnmarshalJSON(data []byte) error {
	var w estimateJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	*e = Estimate{
		Value: orElse(w.Value, math.NaN()), Lo: orElse(w.Lo, math.Inf(-1)), Hi: orElse(w.Hi, math.Inf(1)),
		Confidence: w.Confidence, N: w.N, NEff: w.NEff, Clusters: w.Clusters, Method: w.Method, Reason: w.Reason,
	}
	return nil
}

// undefined is an estimate without a value whose bounds are [lo, hi].
func undefined(method, reason string, confidence, lo, hi float64) Estimate {
	if !finite(confidence) {
		confidence = 0
	}
	return Estimate{Value: math.NaN(), Lo: lo, Hi: hi, Confidence: confidence, Method: method, Reason: reason}
}

// The reasons why an estimate is not defined.
const (
	reasonNoData     = "no data"
	reasonNonFinite  = "non-finite input"
	reasonCount      = "counts need 0 <= successes <= trials"
	reasonConfidence = "confidence must lie between 0 and 1"
	reasonWeight     = "weights must not be negative"
	reasonLimit      = "limit must lie in [0,1]"
	reasonRange      = "values must lie in [0,1]"
)

func finite(xs ...float64) bool {
	for _, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

func finiteOrNil(x float64) *float64 {
	if !finite(x) {
		return nil
	}
	return &x
}

func orElse(p *float64, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return *p
}

// validConfidence reports whether c is a usable confidence level.
func validConfidence(c float64) bool { return c > 0 && c < 1 }

func clamp01(x float64) float64 { return min(1, max(0, x)) }
