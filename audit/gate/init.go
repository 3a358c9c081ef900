package gate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/audit/stat"
)

// suggested are the limits of a starting policy, in the order of the file.
func suggested() []struct {
	figure audit.Figure
	limit  float64
} {
	return []struct {
		figure audit.Figure
		limit  float64
	}{
		{audit.FigureFSR, .05},
		{audit.FigureFalseError, .10},
		{audit.FigureErrorFamily, .80},
		{audit.FigureValidity, .95},
		{audit.FigureLeafF1, .90},
		{audit.FigureMaterial, .25},
		{audit.FigureEffectF1, .85},
		{audit.FigurePhantomWrite, .05},
		{audit.FigureSilentWrite, .05},
	}
}

// Starting is a gate policy to begin with where there is no run to measure.
func Starting() []byte {
	var b strings.Builder
	writeHead(&b, []audit.Mode{audit.Forced, audit.Open})
	for _, s := range suggested() {
		var own []audit.Mode
		if s.figure == audit.FigureFSR { // refusals are rare outside of canaries
			own = []audit.Mode{audit.Canary, audit.Forced, audit.Open}
		}
		writeCondition(&b, s.figure, s.limit, own)
	}
	return []byte(b.String())
}

// Init writes a starting policy from what a run measured: the suggested limits
// for all tools, and for a tool that misses one today its own looser limit, with
// the value beside it, to be tightened later.
func Init(ctx context.Context, source audit.FigureSource, run string) ([]byte, error) {
	facts, err := source.Run(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("find run %q: %w", run, err)
	}
	counts, err := source.Counts(ctx, facts.ID)
	if err != nil {
		return nil, fmt.Errorf("read counts of run %q: %w", facts.ID, err)
	}
	modes, canaries := modesOf(counts)
	var b strings.Builder
	of := ""
	if facts.Policy != "" {
		of = " of policy " + comment(facts.Policy)
	}
	fmt.Fprintf(&b, "# From run %s%s.\n", comment(facts.ID), of)
	writeHead(&b, modes)
	for _, s := range suggested() {
		var own []audit.Mode
		if s.figure == audit.FigureFSR && canaries {
			own = append(slices.Clone(modes), audit.Canary)
		}
		writeCondition(&b, s.figure, s.limit, own)
	}
	writeExceptions(&b, counts, modes, canaries)
	return []byte(b.String()), nil
}

// modesOf lists the modes that ordinary figures can be asked of, and whether
// there are canaries.
func modesOf(counts []audit.ToolCounts) (modes []audit.Mode, canaries bool) {
	for _, m := range []audit.Mode{audit.Forced, audit.Open, audit.Probe} {
		if slices.ContainsFunc(counts, func(t audit.ToolCounts) bool { return t.Mode == m }) && (m != audit.Probe || len(modes) == 0) {
			modes = append(modes, m)
		}
	}
	canaries = slices.ContainsFunc(counts, func(t audit.ToolCounts) bool { return t.Mode == audit.Canary })
	switch {
	case len(modes) > 0:
	case canaries:
		modes = []audit.Mode{audit.Canary}
	default:
		modes = []audit.Mode{audit.Forced, audit.Open}
	}
	return modes, canaries && !slices.Contains(modes, audit.Canary)
}

func writeHead(b *strings.Builder, modes []audit.Mode) {
	fmt.Fprintf(b, `version: 1
confidence: 0.95       # of each one-sided bound
looks: anytime         # or once: sharper, for a run that is judged exactly once
multiple_testing: holm # across the tools, per figure
min_samples: 60        # calls that count in a figure before it may pass
on_no_data: inconclusive
masked_max: 5%%         # more infrastructure failures than this, and nothing passes
modes: [%s]
# baseline: auto       # then: leaf_f1: {min: 0.90, allowed_decrease: 0.02}
defaults:
`, join(modes))
}

func writeCondition(b *strings.Builder, figure audit.Figure, limit float64, modes []audit.Mode) {
	extra := ""
	if figure == audit.FigureFSR {
		extra = ", critical: true"
	}
	if modes != nil {
		extra += ", modes: [" + join(modes) + "]"
	}
	fmt.Fprintf(b, "  %s: {%s: %s%s}\n", figure, boundOf(figure), strconv.FormatFloat(limit, 'f', -1, 64), extra)
}

func boundOf(figure audit.Figure) string {
	if figure.LowerIsBetter() {
		return "max"
	}
	return "min"
}

// writeExceptions loosens the limit of each tool whose mean misses it today.
func writeExceptions(b *strings.Builder, counts []audit.ToolCounts, modes []audit.Mode, canaries bool) {
	seen := map[string]bool{}
	header := false
	for _, t := range counts {
		name := t.Environment + "/" + t.Tool
		if seen[name] || t.Tool == "" {
			continue
		}
		seen[name] = true
		var lines strings.Builder
		for _, s := range suggested() {
			asked := modes
			if s.figure == audit.FigureFSR && canaries {
				asked = append(slices.Clone(modes), audit.Canary)
			}
			var clusters []stat.Cluster
			for _, other := range counts {
				if other.Environment == t.Environment && other.Tool == t.Tool && slices.Contains(asked, other.Mode) {
					clusters = append(clusters, other.Groups[s.figure]...)
				}
			}
			e := stat.ClusteredWilson(clusters, .95)
			if limit, misses := loosened(s.figure, s.limit, e); misses {
				fmt.Fprintf(&lines, "    %s: {%s: %g} # today %s, n=%d; aim at %g\n", s.figure, boundOf(s.figure), limit, number(e.Value), e.N, s.limit)
			}
		}
		if lines.Len() == 0 {
			continue
		}
		if !header {
			b.WriteString("tools:\n")
			header = true
		}
		fmt.Fprintf(b, "  %s:\n%s", strconv.QuoteToASCII(escapePattern(name)), lines.String())
	}
}

// loosened is the limit that today's interval would keep, in whole percent and
// inside (0,1), if the suggested one is missed.
func loosened(figure audit.Figure, limit float64, e stat.Estimate) (float64, bool) {
	if !e.Defined() {
		return 0, false
	}
	if figure.LowerIsBetter() {
		return min(.99, math.Ceil(100*e.Hi)/100), e.Value > limit
	}
	return max(.01, math.Floor(100*e.Lo)/100), e.Value < limit
}

// escapePattern makes a pattern that names exactly one tool.
func escapePattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// comment keeps a name on the comment's line.
func comment(s string) string { return strings.ReplaceAll(plain(s), "\n", " ") }

func join(modes []audit.Mode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = string(m)
	}
	return strings.Join(words, ", ")
}
