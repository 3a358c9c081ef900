package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/envace/train"
)

// sweepFigure is what one panel of a sweep's picture shows.
type sweepFigure struct {
	title string
	of    func(train.Evaluated) stat.Estimate
}

func sweepFigures() []sweepFigure {
	return []sweepFigure{
		{"False successes on canaries", canaryFSR},
		{"False errors on calls that succeed", forced(audit.FigureFalseError)},
		{"Tasks solved in the sandbox", acted},
		{"Imagination gap", gap},
		{"Leaf F1 on executed history", forced(audit.FigureLeafF1)},
		{"Effect F1 on executed history", forced(audit.FigureEffectF1)},
	}
}

// curve is one run's evaluations.
type curve struct {
	arm  train.Arm
	seed uint64
	all  []train.Evaluated
	// tokens that carried loss, over all steps.
	tokens int
}

// drawSweep draws every seed of every arm: one panel a figure, one line a run.
func drawSweep(runs []curve, title string) []byte {
	const columns, wide, high = 2, 460.0, 270.0
	figures := sweepFigures()
	return picture(columns*wide, 64+high*float64((len(figures)+columns-1)/columns), func(b *bytes.Buffer) {
		fmt.Fprintf(b, `<text x="24" y="26" font-size="16">%s</text>`+"\n", html.EscapeString(title))
		legend(b, runs)
		for i, figure := range figures {
			p := plot{left: 64 + wide*float64(i%columns), top: 88 + high*float64(i/columns), width: wide - 88, height: high - 84}
			p.x, p.y = ranges(runs, figure)
			p.axes(b, figure.title, "step", shortPercent, shortNumber)
			for _, r := range runs {
				p.line(b, points(r, figure), colourOf(r.arm), 1.3, fmt.Sprintf("%s, seed %d", r.arm, r.seed))
			}
		}
	})
}

func points(r curve, figure sweepFigure) [][2]float64 {
	var out [][2]float64
	for _, e := range r.all {
		out = append(out, [2]float64{float64(e.Step), figure.of(e).Value})
	}
	return out
}

// ranges are the ends of a panel's axes: those of all runs, rounded outwards to
// twentieths.
func ranges(runs []curve, figure sweepFigure) (x, y [2]float64) {
	x, y = [2]float64{0, 1}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, r := range runs {
		for _, point := range points(r, figure) {
			x[1] = max(x[1], point[0])
			if !math.IsNaN(point[1]) {
				y[0], y[1] = min(y[0], point[1]), max(y[1], point[1])
			}
		}
	}
	if y[0] > y[1] {
		return x, [2]float64{0, 1}
	}
	return x, [2]float64{math.Floor(20*y[0]) / 20, math.Ceil(20*y[1]+1e-9) / 20}
}

func legend(b *bytes.Buffer, runs []curve) {
	var arms []train.Arm
	for _, r := range runs {
		if len(r.all) > 1 && !slices.Contains(arms, r.arm) {
			arms = append(arms, r.arm)
		}
	}
	for i, arm := range arms {
		fmt.Fprintf(b, `<text x="%d" y="50" fill="%s">%s</text>`+"\n", 24+170*i, colourOf(arm), arm)
	}
}

// colourOf are colours that can be told apart, also by who sees no red or green.
func colourOf(arm train.Arm) string {
	colours := map[train.Arm]string{
		train.ArmSandbox: "#0b6e99", train.ArmEnvACE: "#b3541e", train.ArmPerRole: "#8a8a8a", train.ArmCalibrated: "#111111",
		train.ArmSimulator: "#c48a00", train.ArmRecorded: "#7b3fa0",
	}
	if colour := colours[arm]; colour != "" {
		return colour
	}
	return "#4a4a4a"
}
