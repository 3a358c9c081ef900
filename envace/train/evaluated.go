package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"understudy/audit"
	"understudy/audit/stat"
)

// The metrics of an evaluation, beside MetricFSR of training rollouts.
const (
	MetricCanaryFSR = "canary_fsr"      // calls that the sandbox refuses and REHEARSE accepts: the easier world of trap 8
	MetricSolved    = "solved"          // acting in the sandbox
	MetricImagined  = "imagined"        // graded a success in the rehearsed world
	MetricGap       = "imagination_gap" // imagined, less the same calls executed
)

// metrics are an evaluation's, for the sinks of the training: one line a checkpoint.
func (e Evaluated) metrics() []audit.Metric {
	var out []audit.Metric
	add := func(name string, role audit.PolicyRole, value float64) {
		out = append(out, audit.Metric{Name: name, Role: role, Step: int64(e.Step), Value: value})
	}
	imagined := e.Rate(func(x EvaluatedTask) int { return x.Imagined })
	add(MetricImagined, audit.WholePolicy, imagined)
	if e.Unexecuted {
		return out
	}
	add(MetricSolved, audit.WholePolicy, e.Rate(func(x EvaluatedTask) int { return x.Real }))
	add(MetricGap, audit.WholePolicy, imagined-e.Rate(func(x EvaluatedTask) int { return x.Executed }))
	if f := e.Of(audit.Canary); f != nil {
		if rate := f.Value(string(audit.FigureFSR)); rate.Defined() {
			add(MetricCanaryFSR, audit.RehearseRole, rate.Value)
		}
	}
	return out
}

// rising warns when REHEARSE accepts more of the canaries than at the first
// evaluation, beyond both intervals; "" else.
func rising(all []Evaluated) string {
	if len(all) < 2 {
		return ""
	}
	first, last := all[0].Of(audit.Canary), all[len(all)-1].Of(audit.Canary)
	if first == nil || last == nil {
		return ""
	}
	before, now := first.Value(string(audit.FigureFSR)), last.Value(string(audit.FigureFSR))
	if !above(now, before) {
		return ""
	}
	return fmt.Sprintf("warning: REHEARSE accepts %.3f of the calls that the sandbox refuses, at the first evaluation it was %.3f: its world becomes easier than the real one",
		now.Value, before.Value)
}

// above says whether one estimate is over another beyond both intervals.
func above(now, before stat.Estimate) bool {
	return before.Defined() && now.Defined() && now.Lo > before.Hi
}

func (t *Trainer) evaluatedLine(e Evaluated) string {
	imagined := 100 * e.Rate(func(x EvaluatedTask) int { return x.Imagined })
	if e.Unexecuted {
		return fmt.Sprintf("%s s%d  step %d  imagined %.1f %% (there is no environment to execute in)", t.Arm, t.Seed, e.Step, imagined)
	}
	return fmt.Sprintf("%s s%d  step %d  solved %.1f %%, imagined %.1f %%, of these executed %.1f %%  FSR on canaries %s", t.Arm, t.Seed, e.Step,
		100*e.Rate(func(x EvaluatedTask) int { return x.Real }), imagined,
		100*e.Rate(func(x EvaluatedTask) int { return x.Executed }), e.canaryFSR())
}

// canaryFSR is the false-success rate over all canaries, with its count.
func (e Evaluated) canaryFSR() string {
	f := e.Of(audit.Canary)
	if f == nil {
		return "unknown"
	}
	rate := f.Value(string(audit.FigureFSR))
	return fmt.Sprintf("%.3f of %d", rate.Value, rate.N)
}

// earlier reads the evaluations up to a step; later ones are of a part of the run
// that is done again.
func earlier(path string, step int) ([]Evaluated, error) {
	all, err := ReadEvaluations(path)
	if err != nil {
		return nil, err
	}
	var kept []Evaluated
	for _, e := range all {
		if e.Step <= step {
			kept = append(kept, e)
		}
	}
	if len(kept) == len(all) {
		return kept, nil
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("drop later evaluations: %w", err)
	}
	for _, e := range kept {
		if err := appendLine(path, e); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// ReadEvaluations reads a run's evaluations, in order; none is no error.
func ReadEvaluations(path string) ([]Evaluated, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read evaluations: %w", err)
	}
	var all []Evaluated
	decoder := json.NewDecoder(file)
	for decoder.More() {
		var e Evaluated
		if err := decoder.Decode(&e); err != nil {
			return all, errors.Join(fmt.Errorf("read %s: %w", path, err), file.Close())
		}
		all = append(all, e)
	}
	return all, file.Close()
}
