package eval

import (
	"fmt"
	"slices"
	"strings"

	"understudy/audit/stat"
)

// Figures are what a benchmark's results come to.
type Figures struct {
	Tasks   int `json:"tasks"`   // with at least one known sample
	Samples int `json:"samples"` // known
	// Unknown counts the samples of which nobody can say how they went; they are in
	// no figure.
	Unknown int `json:"unknown"`
	// Why is what was said of them, the most frequent first, a few of it.
	Why []Count `json:"why,omitempty"`
	// Initial counts the tasks whose checks hold before anything is done: an idle
	// policy solves them.
	Initial int `json:"initial"`
	// Average is Avg@n: the mean of success over samples.
	Average stat.Estimate `json:"average"`
	Score   stat.Estimate `json:"score"` // mean partial score
	// PassHat is pass^1 … pass^n.
	PassHat []stat.Estimate `json:"pass_hat"`
	// Tools are TR, TP and TF1; nil where no task has a reference set.
	Tools *ToolFigures `json:"tools,omitempty"`
	// Tokens and Calls are means a sample, rehearsal and execution together.
	Tokens float64 `json:"tokens"`
	Calls  float64 `json:"calls"`
	Stops  []Count `json:"stops"` // how samples ended, the most frequent first
}

// ToolFigures are FinMCP's.
type ToolFigures struct {
	Recall    stat.Estimate `json:"tr"`
	Precision stat.Estimate `json:"tp"`
	F1        stat.Estimate `json:"tf1"`
}

// Count is how often something occurred.
type Count struct {
	What  string `json:"what"`
	Times int    `json:"times"`
}

// group is one task's known results.
type group struct {
	n, right int
	score    float64
	square   float64 // Σ score²
	tools    ToolUse
	compared int // samples with a reference set
}

// Compute counts results; samples is how many of each task were asked for. Intervals
// are clustered by task: samples of one task share its difficulty.
func Compute(results []Result, samples int) Figures {
	f := Figures{}
	groups := map[string]*group{}
	var order []string
	stops, why, initial := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, r := range results {
		if r.Unknown != "" {
			f.Unknown++
			why[r.reason()]++
			continue
		}
		g := groups[r.Task]
		if g == nil {
			g = &group{}
			groups[r.Task], order = g, append(order, r.Task)
		}
		g.add(r)
		f.Samples++
		f.Tokens += float64(r.Tokens)
		f.Calls += float64(r.Calls)
		stops[string(r.Stop)]++
		initial[r.Task] = initial[r.Task] || r.Initial
	}
	f.Tasks = len(groups)
	if f.Samples > 0 {
		f.Tokens, f.Calls = f.Tokens/float64(f.Samples), f.Calls/float64(f.Samples)
	}
	for _, holds := range initial {
		if holds {
			f.Initial++
		}
	}
	slices.Sort(order) // resampling draws in this order, whatever the order of playing
	ordered := make([]*group, len(order))
	for i, task := range order {
		ordered[i] = groups[task]
	}
	f.estimate(order, ordered, samples)
	f.Stops, f.Why = counts(stops), counts(why)
	f.Why = f.Why[:min(len(f.Why), mostReasons)]
	return f
}

// mostReasons is how many of the reasons for unknown samples are told.
const mostReasons = 3

// reason is why a result is unknown, the same for every task.
func (r Result) reason() string { return strings.ReplaceAll(r.Unknown, " on task "+r.Task, "") }

func (g *group) add(r Result) {
	g.n++
	if r.Success {
		g.right++
	}
	g.score += r.Score
	g.square += r.Score * r.Score
	if r.Tools != nil {
		g.tools = g.tools.add(*r.Tools)
		g.compared++
	}
}

func (f *Figures) estimate(names []string, groups []*group, samples int) {
	var right, score []stat.Cluster
	var tools []ToolUse
	compared := 0
	for i, g := range groups {
		n, c := float64(g.n), float64(g.right)
		right = append(right, stat.Cluster{Group: names[i], N: g.n, Weight: n, Sum: c, SumSq: c})
		score = append(score, stat.Cluster{Group: names[i], N: g.n, Weight: n, Sum: g.score, SumSq: g.square})
		if g.compared > 0 {
			tools, compared = append(tools, g.tools), compared+g.compared
		}
	}
	f.Average = stat.ClusteredWilson(right, confidence)
	f.Score = stat.BootstrapMean(score, stat.Resample{Confidence: confidence})
	for k := 1; k <= samples; k++ {
		f.PassHat = append(f.PassHat, passHat(names, groups, k))
	}
	if compared > 0 {
		f.Tools = &ToolFigures{
			Recall:    toolFigure(tools, compared, ToolUse.Recall),
			Precision: toolFigure(tools, compared, ToolUse.Precision),
			F1:        toolFigure(tools, compared, ToolUse.F1),
		}
	}
}

// passHat is the mean over the tasks that have k known samples.
func passHat(names []string, groups []*group, k int) stat.Estimate {
	var clusters []stat.Cluster
	for i, g := range groups {
		if g.n < k {
			continue
		}
		p := PassHat(g.n, g.right, k)
		clusters = append(clusters, stat.Cluster{Group: names[i], N: 1, Weight: 1, Sum: p, SumSq: p * p})
	}
	return stat.BootstrapMean(clusters, stat.Resample{Confidence: confidence})
}

func counts(times map[string]int) []Count {
	var out []Count
	for what, n := range times {
		out = append(out, Count{what, n})
	}
	slices.SortFunc(out, func(a, b Count) int {
		if a.Times != b.Times {
			return b.Times - a.Times
		}
		return strings.Compare(a.What, b.What)
	})
	return out
}

// String says how samples ended.
func (c Count) String() string { return fmt.Sprintf("%s %d", c.What, c.Times) }
