package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/envace/train"
)

// printSweep prints one line a run, from its last evaluation, then one an arm: the
// false-success rate on canaries first, since that is what a sweep is for. Of so many
// runs, those without a curve have no evaluation yet.
func printSweep(w io.Writer, out string, curves []curve, runs int) error {
	table := columns{left: 2}
	table.add("arm", "seed", "step", "FSR on canaries", "n", "false errors", "solved", "imagined", "gap", "F1", "effect F1", "tasks", "trained tokens")
	for _, r := range curves {
		e, fsr := r.last(), canaryFSR(r.last())
		table.add(string(r.arm), strconv.FormatUint(r.seed, 10), strconv.Itoa(e.Step), bounded(fsr), strconv.Itoa(fsr.N),
			bounded(forced(audit.FigureFalseError)(e)), bounded(acted(e)), bounded(solved(e, imagined)), bounded(gap(e)), bounded(forced(audit.FigureLeafF1)(e)),
			bounded(forced(audit.FigureEffectF1)(e)), strconv.Itoa(len(e.Tasks)), count(r.tokens))
	}
	if err := table.print(w); err != nil {
		return err
	}
	if err := printReading(w, curves); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, `
In %%, with 95 %% intervals. FSR = P(rehearsed ok | the sandbox refuses) on held-out canaries, greedy; false errors =
P(rehearsed error | the sandbox agrees) on the calls of the solutions. solved: held-out tasks acted out in the
sandbox; imagined: graded a success in the rehearsed world; gap: imagined less the same calls executed, paired by
task. F1 and effect F1: rehearsals of the solutions' calls on executed history. Shares: Wilson on n/deff, clustered by
task; F1: means, clustered by task. %d of %d runs have no evaluation yet.
`, runs-len(curves), runs); err != nil {
		return err
	}
	return errors.Join(printArms(w, curves), printCeiling(w, out))
}

// printReading says by which rules answers were read and compared, where somebody wrote
// some. Figures of different readings do not compare.
func printReading(w io.Writer, curves []curve) error {
	runs := map[audit.Digest][]string{}
	for _, r := range curves {
		rules := r.last().Rules
		runs[rules] = append(runs[rules], fmt.Sprintf("%s-s%d", r.arm, r.seed))
	}
	var lines []string
	for rules, names := range runs {
		switch {
		case len(runs) > 1:
			lines = append(lines, fmt.Sprintf("answers of %s were read by %s", strings.Join(names, ", "), audit.RulesName(rules)))
		case !rules.IsZero():
			lines = append(lines, "answers were read by "+audit.RulesName(rules))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	if len(runs) > 1 {
		lines = append(lines, "these figures do not compare")
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	return err
}

// readCurves reads the evaluations of the runs that have some.
func readCurves(out string, runs []train.Config) (found []curve, err error) {
	for _, c := range runs {
		folder := train.Folder(out, c.Arm, c.Seed)
		all, err := train.ReadEvaluations(filepath.Join(folder, "evaluations.jsonl"))
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			continue
		}
		tokens, err := train.TrainedTokens(folder)
		if err != nil {
			return nil, err
		}
		found = append(found, curve{arm: c.Arm, seed: c.Seed, all: all, tokens: tokens})
	}
	return found, nil
}

// printArms compares each arm with the untrained policy, paired by seed.
func printArms(w io.Writer, runs []curve) error {
	var arms []train.Arm
	base := map[uint64]train.Evaluated{}
	for _, r := range runs {
		if !slices.Contains(arms, r.arm) {
			arms = append(arms, r.arm)
		}
		if r.arm == train.ArmBase {
			base[r.seed] = r.last()
		}
	}
	if len(base) < 2 {
		return nil // nothing to pair with
	}
	table := columns{left: 1}
	table.add("arm less base", "seeds", "FSR on canaries", "false errors", "solved", "gap", "F1", "effect F1")
	for _, arm := range arms {
		if arm == train.ArmBase {
			continue
		}
		cells := []string{string(arm), ""}
		for _, figure := range sweepFigures() {
			var changes []stat.Cluster
			for _, r := range runs {
				before, ok := base[r.seed]
				if r.arm != arm || !ok {
					continue
				}
				change := stat.Cluster{Group: strconv.FormatUint(r.seed, 10)}
				change.Add(figure.of(r.last()).Value-figure.of(before).Value, 1)
				changes = append(changes, change)
			}
			cells[1] = strconv.Itoa(len(changes))
			cells = append(cells, bounded(stat.Clustered(changes, .95)))
		}
		table.add(cells...)
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := table.print(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nPercentage points, mean over seeds with 95 % t-intervals: the seed is the unit, so that a difference which its\ninterval excludes from 0 would be found again with other seeds.")
	return err
}

// printCeiling prints the Bayes ceiling of F1, where it was computed.
func printCeiling(w io.Writer, out string) error {
	c, err := train.ReadCeiling(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	reading := ""
	if !c.Rules.IsZero() {
		reading = ", by " + audit.RulesName(c.Rules)
	}
	_, err = fmt.Fprintf(w, `
Bayes ceiling of F1: %s over %d calls (%d worlds each)%s; against what the sandbox said %s.
%d of the calls have an answer that the card and the calls before leave open; %d more are left out, because what is
seen there is too rare to be met by chance.
`, bounded(c.LeafF1), c.Calls, c.Worlds, reading, bounded(c.Reference), c.Open, c.Skipped)
	return err
}

// The counts of an evaluated task.
func sandboxed(t train.EvaluatedTask) int { return t.Real }
func imagined(t train.EvaluatedTask) int  { return t.Imagined }
func executed(t train.EvaluatedTask) int  { return t.Executed }

func canaryFSR(e train.Evaluated) stat.Estimate {
	return figureOf(e, audit.Canary, audit.FigureFSR)
}

func forced(figure audit.Figure) func(train.Evaluated) stat.Estimate {
	return func(e train.Evaluated) stat.Estimate { return figureOf(e, audit.Forced, figure) }
}

// figureOf is a figure over all tools of a mode.
func figureOf(e train.Evaluated, mode audit.Mode, figure audit.Figure) stat.Estimate {
	if f := e.Of(mode); f != nil {
		return f.Value(string(figure))
	}
	return stat.Clustered(nil, .95)
}

func solved(e train.Evaluated, count func(train.EvaluatedTask) int) stat.Estimate {
	return stat.ClusteredWilson(taskClusters(e, count), .95)
}

// acted is the success of acting in the sandbox; unknown where there is none.
func acted(e train.Evaluated) stat.Estimate {
	if e.Unexecuted {
		return stat.Clustered(nil, .95)
	}
	return solved(e, sandboxed)
}

// gap is success in imagination less success of the same calls executed.
func gap(e train.Evaluated) stat.Estimate {
	if e.Unexecuted {
		return stat.Clustered(nil, .95)
	}
	return stat.PairedDifference(taskClusters(e, imagined), taskClusters(e, executed), .95)
}

func taskClusters(e train.Evaluated, count func(train.EvaluatedTask) int) []stat.Cluster {
	clusters := make([]stat.Cluster, 0, len(e.Tasks))
	for _, t := range e.Tasks {
		if n := float64(count(t)); t.Samples > 0 { // else no sample of it could be graded
			clusters = append(clusters, stat.Cluster{Group: t.Task, N: t.Samples, Weight: float64(t.Samples), Sum: n, SumSq: n})
		}
	}
	return clusters
}

// last is the run's last evaluation.
func (r curve) last() train.Evaluated { return r.all[len(r.all)-1] }
