package dashboard

import (
	"cmp"
	"math"
	"slices"

	"understudy/audit"
	"understudy/audit/stat"
)

// The limits that a tool's imagination is called right or wrong by on the first
// screen: those of the gate policy that everybody starts from. A release is the
// gate's to decide.
const (
	falseSuccessLimit = .05 // of the calls that the sandbox refuses
	materialLimit     = .10 // of all calls: S3 or worse
)

// standing is what a tool's bounds prove.
type standing string

const (
	trusted   standing = "trusted"   // both upper bounds are below their limits
	wrong     standing = "wrong"     // a lower bound is above its limit
	undecided standing = "undecided" // more calls are needed
)

// Tone is the standing's colour.
func (s standing) Tone() string {
	switch s {
	case trusted:
		return "good"
	case wrong:
		return "poor"
	case undecided:
	}
	return "fair"
}

// Says is the standing in words.
func (s standing) Says() string {
	switch s {
	case trusted:
		return "can be trusted"
	case wrong:
		return "shown to be wrong"
	case undecided:
	}
	return "too few calls to tell"
}

// toolLine is one tool as lists show it.
type toolLine struct {
	audit.Figures
	Standing         standing
	FSR, Material    stat.Estimate
	Faithful         stat.Estimate // share of calls below S3
	LeafF1, EffectF1 stat.Estimate
}

func newToolLine(f audit.Figures) toolLine {
	l := toolLine{Figures: f}
	l.FSR, l.Material = f.Value(string(audit.FigureFSR)), f.Value(string(audit.FigureMaterial))
	l.LeafF1, l.EffectF1 = f.Value(string(audit.FigureLeafF1)), f.Value(string(audit.FigureEffectF1))
	l.Faithful = complement(l.Material)
	l.Standing = standingOf(l.FSR, l.Material)
	return l
}

// standingOf reads two bounds. A tool that was never refused has shown nothing
// about refusals: no data is never a pass.
func standingOf(fsr, material stat.Estimate) standing {
	switch {
	case fsr.Defined() && fsr.Lo > falseSuccessLimit, material.Defined() && material.Lo > materialLimit:
		return wrong
	case fsr.Defined() && fsr.Hi <= falseSuccessLimit && material.Defined() && material.Hi <= materialLimit:
		return trusted
	}
	return undecided
}

// complement is 1 − e, bounds exchanged.
func complement(e stat.Estimate) stat.Estimate {
	e.Value, e.Lo, e.Hi = 1-e.Value, 1-e.Hi, 1-e.Lo
	return e
}

// excess is how far a tool is shown to be beyond its limits: the more, the worse.
func (l *toolLine) excess() float64 {
	worst := math.Inf(-1)
	if l.FSR.Defined() {
		worst = max(worst, l.FSR.Lo/falseSuccessLimit)
	}
	if l.Material.Defined() {
		worst = max(worst, l.Material.Lo/materialLimit)
	}
	return worst
}

func newToolLines(tools []audit.Figures) []toolLine {
	lines := make([]toolLine, 0, len(tools))
	for _, f := range tools {
		lines = append(lines, newToolLine(f))
	}
	return lines
}

// worstFirst sorts by what is proven against a tool, then by what is not
// excluded.
func worstFirst(lines []toolLine) {
	slices.SortStableFunc(lines, func(a, b toolLine) int {
		return cmp.Or(-cmp.Compare(a.excess(), b.excess()), cmp.Compare(lower(a.Faithful), lower(b.Faithful)), cmp.Compare(a.Tool, b.Tool))
	})
}

// lower is the lower bound; what is not defined is the worst.
func lower(e stat.Estimate) float64 {
	if !e.Defined() || math.IsInf(e.Lo, 0) {
		return -1
	}
	return e.Lo
}

// verdict is the sentence of the first screen.
type verdict struct {
	Tone                      string
	Answer                    string    // Yes, No, Not yet shown, ...
	Worst                     *toolLine // what the sentence is about; nil = no tool is wrong
	ByFalseSuccess            bool      // which of its two figures is
	Trusted, Wrong, Undecided int
}

func newVerdict(lines []toolLine) verdict {
	var v verdict
	for i := range lines {
		switch lines[i].Standing {
		case trusted:
			v.Trusted++
		case wrong:
			v.Wrong++
		case undecided:
			v.Undecided++
		}
	}
	switch {
	case v.Wrong > 0:
		v.Tone, v.Answer = "poor", "No"
		v.Worst = &lines[0]
		fsr := v.Worst.FSR
		v.ByFalseSuccess = fsr.Defined() && fsr.Lo/falseSuccessLimit >= v.Worst.Material.Lo/materialLimit
	case v.Undecided > 0:
		v.Tone, v.Answer = "fair", "Not shown yet"
	case v.Trusted > 0:
		v.Tone, v.Answer = "good", "Yes"
	}
	return v
}
