package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/envace/train"
)

// printSweep prints one line a run, from its last evaluation: the false-success
// rate on canaries first, since that is what a sweep is for.
func printSweep(w io.Writer, out string, runs []train.Config) error {
	table := columns{left: 2}
	table.add("arm", "seed", "step", "FSR on canaries", "n", "solved", "imagined", "gap", "F1", "effect F1", "tasks", "tokens")
	missing := 0
	for _, c := range runs {
		all, err := train.ReadEvaluations(filepath.Join(train.Folder(out, c.Arm, c.Seed), "evaluations.jsonl"))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			missing++
			continue
		}
		e := all[len(all)-1]
		fsr := figureOf(e, audit.Canary, audit.FigureFSR)
		table.add(string(c.Arm), strconv.FormatUint(c.Seed, 10), strconv.Itoa(e.Step), bounded(fsr), strconv.Itoa(fsr.N),
			bounded(solved(e, func(t train.EvaluatedTask) int { return t.Real })), bounded(solved(e, func(t train.EvaluatedTask) int { return t.Imagined })),
			bounded(gap(e)), percent(figureOf(e, audit.Forced, audit.FigureLeafF1)), percent(figureOf(e, audit.Forced, audit.FigureEffectF1)),
			strconv.Itoa(len(e.Tasks)), strconv.Itoa(e.Tokens))
	}
	if err := table.print(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
In %%, with 95 %% intervals. FSR = P(rehearsed ok | the sandbox refuses) on held-out canaries, greedy. solved: held-out
tasks acted out in the sandbox; imagined: graded a success in the rehearsed world; gap: imagined less the same
calls executed, paired by task. F1 and effect F1: rehearsals of the solutions' calls on executed history. Wilson on
n/deff, clustered by task. %d of %d runs have no evaluation yet.
`, missing, len(runs))
	return err
}

// figureOf is a figure over all tools of a mode.
func figureOf(e train.Evaluated, mode audit.Mode, figure audit.Figure) stat.Estimate {
	if f := e.Of(mode); f != nil {
		return f.Value(string(figure))
	}
	return stat.Clustered(nil, .95)
}

func solved(e train.Evaluated, count func(train.EvaluatedTask) int) stat.Estimate {
	clusters := make([]stat.Cluster, len(e.Tasks))
	for i, t := range e.Tasks {
		n := float64(count(t))
		clusters[i] = stat.Cluster{Group: t.Task, N: t.Samples, Weight: float64(t.Samples), Sum: n, SumSq: n}
	}
	return stat.ClusteredWilson(clusters, .95)
}

// gap is success in imagination less success of the same calls executed.
func gap(e train.Evaluated) stat.Estimate {
	imagined, executed := make([]stat.Cluster, len(e.Tasks)), make([]stat.Cluster, len(e.Tasks))
	for i, t := range e.Tasks {
		imagined[i] = stat.Cluster{Group: t.Task, N: t.Samples, Weight: float64(t.Samples), Sum: float64(t.Imagined), SumSq: float64(t.Imagined)}
		executed[i] = stat.Cluster{Group: t.Task, N: t.Samples, Weight: float64(t.Samples), Sum: float64(t.Executed), SumSq: float64(t.Executed)}
	}
	return stat.PairedDifference(imagined, executed, .95)
}
