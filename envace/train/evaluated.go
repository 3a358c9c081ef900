package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"understudy/audit"
	"understudy/audit/atomicfile"
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

// earlier reads the evaluations up to a step, and leaves the file with these alone:
// later ones are of a part of the run that is done again, and a cut line ends here.
func earlier(path string, step int) ([]Evaluated, error) {
	all, err := ReadEvaluations(path)
	if err != nil || all == nil {
		return nil, err
	}
	var kept []Evaluated
	var text []byte
	for _, e := range all {
		if e.Step > step {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			return nil, fmt.Errorf("encode an evaluation: %w", err)
		}
		kept, text = append(kept, e), append(append(text, line...), '\n')
	}
	return kept, atomicfile.Write(path, text, 0o644)
}

// ReadEvaluations reads a run's evaluations, in order; none is no error. A last line
// without its end is one that a killed program did not finish: it is not read.
func ReadEvaluations(path string) ([]Evaluated, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read evaluations: %w", err)
	}
	all, number := []Evaluated{}, 0
	for line := range bytes.Lines(text) {
		number++
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e Evaluated
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, &audit.Error{
				Code: audit.CodeInvalid, Message: fmt.Sprintf("%s:%d is damaged", path, number), Err: err,
				Hint: "delete that line: a run goes on without an evaluation, and makes those that follow",
			}
		}
		all = append(all, e)
	}
	return all, nil
}
