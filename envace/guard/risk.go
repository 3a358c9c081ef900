package guard

import (
	"fmt"

	"understudy/audit"
	"understudy/envace"
)

// Measured are a tool's audited figures.
type Measured struct {
	FSR        float64 // P(rehearsed ok | really refused)
	FalseError float64 // P(rehearsed refused | really ok)
}

// Evidence is what rehearsals said of calls.
type Evidence map[audit.Digest][]Rehearsed

// Rehearsed is one rehearsed answer to a call.
type Rehearsed struct {
	OK         bool
	Confidence *float64
}

// EvidenceOf collects the rehearsed answers of trajectories.
func EvidenceOf(rules *audit.Rules, trajectories ...*envace.Trajectory) Evidence {
	e := Evidence{}
	for _, t := range trajectories {
		for _, answer := range t.Calls() {
			if answer.Rehearsal == nil {
				continue
			}
			key := audit.CallDigest(answer.Call)
			e[key] = append(e[key], Rehearsed{
				OK:         rules.Of(answer.Call.Tool).Read(answer.Raw).Outcome.Class != audit.Failed,
				Confidence: answer.Rehearsal.Confidence,
			})
		}
	}
	return e
}

// Risk is the probability that a write is really refused, or does something else
// than was rehearsed, as far as it is known.
type Risk struct {
	Value      float64 `json:"value"`
	Rehearsals int     `json:"rehearsals"`
	OK         int     `json:"ok"` // of these
	Confidence float64 `json:"confidence"`
	FSR        float64 `json:"fsr"`
	Reason     string  `json:"reason"`
}

// risk is 1 − c·(1 − r): r the mean over the rehearsed answers of P(really refused |
// that answer) by Bayes from the prior and the tool's figures, c their mean
// confidence. Without figures FSR is 1: a rehearsed success then tells nothing.
func (g *Guard) risk(call audit.Call, evidence Evidence) Risk {
	figures, measured := g.Measured[call.Tool]
	if !measured {
		figures = Measured{FSR: 1}
	}
	r := Risk{Confidence: 1, FSR: figures.FSR}
	refused, confidence := 0.0, 0.0
	for _, answer := range evidence[audit.CallDigest(call)] {
		r.Rehearsals++
		ifRefused, ifOK := 1-figures.FSR, figures.FalseError // P(rehearsed refused | really refused), … | really ok)
		if answer.OK {
			r.OK++
			ifRefused, ifOK = figures.FSR, 1-figures.FalseError
		}
		refused += posterior(g.Prior, ifRefused, ifOK)
		if answer.Confidence == nil {
			confidence++
			continue
		}
		confidence += *answer.Confidence
	}
	if r.Rehearsals == 0 {
		r.Value, r.Reason = g.Prior, fmt.Sprintf("risk %.2f: not rehearsed", g.Prior)
		return r
	}
	n := float64(r.Rehearsals)
	r.Confidence = confidence / n
	r.Value = 1 - r.Confidence*(1-refused/n)
	known := fmt.Sprintf("FSR %.3f", r.FSR)
	if !measured {
		known = "FSR not measured"
	}
	r.Reason = fmt.Sprintf("risk %.2f: rehearsed ok %d of %d times, confidence %.2f, %s", r.Value, r.OK, r.Rehearsals, r.Confidence, known)
	return r
}

// posterior is P(refused) after an answer of so probable under either truth.
func posterior(prior, ifRefused, ifOK float64) float64 {
	total := prior*ifRefused + (1-prior)*ifOK
	if total == 0 {
		return prior // the figures say that this answer cannot be
	}
	return prior * ifRefused / total
}
