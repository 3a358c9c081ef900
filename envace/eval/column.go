package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/stat"
)

// Column is one column of the paper's table: the mean of its benchmarks.
type Column string

// The columns of the paper's Overall, and those beside it.
const (
	Tau2   Column = "tau2"
	BFCL   Column = "bfcl"
	Vita   Column = "vita"
	ACE    Column = "acebench"
	FinMCP Column = "finmcp"
	Own    Column = "" // a benchmark of the user's: in no column
)

// OverallColumns are those whose mean is the paper's Overall.
func OverallColumns() []Column { return []Column{BFCL, Tau2, Vita} }

// Run names what was played: results of two runs go together only when it is the same.
type Run struct {
	Benchmark   string       `json:"benchmark"`
	Column      Column       `json:"column,omitempty"`
	Policy      string       `json:"policy"`
	Environment audit.Digest `json:"environment,omitzero"` // of rules and data
	Tasks       audit.Digest `json:"tasks"`                // of what is asked
	Rules       audit.Digest `json:"rules,omitzero"`       // by which answers were read, where somebody wrote some
	TaskCount   int          `json:"task_count"`
	Samples     int          `json:"samples"`
	Seed        uint64       `json:"seed"`
	Temperature float64      `json:"temperature"`
	Rehearse    int          `json:"rehearse,omitempty"` // private attempts
	Mode        string       `json:"mode,omitempty"`     // of them
	Notes       string       `json:"notes,omitempty"`    // what of the benchmark was not asked
}

// Complete says whether every sample of every task is known.
func (r Run) Complete(f Figures) bool { return f.Samples == r.TaskCount*r.Samples }

// Played is a benchmark with its figures.
type Played struct {
	Run     Run     `json:"run"`
	Figures Figures `json:"figures"`
}

// ColumnMean is the mean of a column's benchmarks (τ²: its domains), each counting
// the same.
type ColumnMean struct {
	Column     Column        `json:"column"`
	Benchmarks []string      `json:"benchmarks"`
	Average    stat.Estimate `json:"average"`
}

// Overall is the paper's: the mean of three columns.
type Overall struct {
	Policy  string        `json:"policy"`
	Columns []ColumnMean  `json:"columns"`
	Average stat.Estimate `json:"average"`
}

// OverallFormula is how it is explained beside its value.
const OverallFormula = "Overall = (bfcl + tau2 + vita) / 3, a column being the mean of its benchmarks' Avg@n"

// OverallOf is the mean of the three columns. A column that is missing, incomplete or
// of another policy is an *audit.Error that names it: two columns have no Overall.
func OverallOf(played []Played) (Overall, error) {
	var o Overall
	var lacks []string
	for _, column := range OverallColumns() {
		mean, lack := columnMean(played, column)
		if lack != "" {
			lacks = append(lacks, string(column)+": "+lack)
			continue
		}
		o.Columns = append(o.Columns, mean)
	}
	if len(lacks) == 0 {
		lacks = append(lacks, mixed(played)...)
	}
	if len(lacks) > 0 {
		return Overall{}, &audit.Error{
			Code: audit.CodeUnprocessable, Message: "no Overall: it is the mean of bfcl, tau2 and vita, and lacks " + strings.Join(lacks, "; "),
			Hint: "run what is missing with the same --out, or read the columns that are there by themselves",
		}
	}
	parts := make([]stat.Estimate, len(o.Columns))
	for i, c := range o.Columns {
		parts[i] = c.Average
	}
	o.Policy, o.Average = inOverall(played)[0].Run.Policy, meanOf(parts)
	return o, nil
}

func columnMean(played []Played, column Column) (ColumnMean, string) {
	mean := ColumnMean{Column: column}
	var parts []stat.Estimate
	for _, p := range played {
		if p.Run.Column != column {
			continue
		}
		if !p.Run.Complete(p.Figures) {
			return mean, fmt.Sprintf("%s has %d of %d samples", p.Run.Benchmark, p.Figures.Samples, p.Run.TaskCount*p.Run.Samples)
		}
		mean.Benchmarks, parts = append(mean.Benchmarks, p.Run.Benchmark), append(parts, p.Figures.Average)
	}
	if len(parts) == 0 {
		return mean, "no benchmark was run"
	}
	mean.Average = meanOf(parts)
	return mean, ""
}

func inOverall(played []Played) []Played {
	return slices.DeleteFunc(slices.Clone(played), func(p Played) bool { return !slices.Contains(OverallColumns(), p.Run.Column) })
}

// mixed are the settings in which benchmarks of one Overall differ.
func mixed(played []Played) []string {
	var faults []string
	all := inOverall(played)
	for _, p := range all[1:] {
		first := all[0]
		for name, pair := range map[string][2]any{
			"policy": {first.Run.Policy, p.Run.Policy}, "samples": {first.Run.Samples, p.Run.Samples},
			"rehearse": {first.Run.Rehearse, p.Run.Rehearse}, "mode": {first.Run.Mode, p.Run.Mode}, "reading of answers": {audit.RulesName(first.Run.Rules), audit.RulesName(p.Run.Rules)},
		} {
			if pair[0] != pair[1] {
				faults = append(faults, fmt.Sprintf("one %s: %s has %v, %s has %v", name, first.Run.Benchmark, pair[0], p.Run.Benchmark, pair[1]))
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// meanOf is the mean of independent estimates. Its half-width is the root of the sum
// of their squared half-widths over their number, which is right for normal errors.
func meanOf(parts []stat.Estimate) stat.Estimate {
	mean := stat.Estimate{Confidence: confidence, Method: fmt.Sprintf("mean of %d, half-widths in quadrature", len(parts))}
	low, high := 0.0, 0.0
	for _, p := range parts {
		mean.Value += p.Value
		mean.N, mean.Clusters = mean.N+p.N, mean.Clusters+p.Clusters
		mean.NEff += p.NEff
		low += (p.Value - p.Lo) * (p.Value - p.Lo)
		high += (p.Hi - p.Value) * (p.Hi - p.Value)
	}
	n := float64(len(parts))
	mean.Value /= n
	mean.Lo, mean.Hi = mean.Value-math.Sqrt(low)/n, mean.Value+math.Sqrt(high)/n
	return mean
}
