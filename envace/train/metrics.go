package train

import (
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace"
)

// Sink takes the metrics of steps: a file, a ledger.
type Sink interface {
	Write(metrics []audit.Metric) error
	Close() error
}

// metricTokens counts the tokens that carried loss.
const metricTokens = "tokens"

// meter adds up what one step saw. Its zero value is empty.
type meter struct {
	sums map[metricKey]*mean
}

type metricKey struct {
	name string
	role audit.PolicyRole
}

type mean struct{ sum, n float64 }

func (m *meter) add(name string, role audit.PolicyRole, value float64) {
	if m.sums == nil {
		m.sums = map[metricKey]*mean{}
	}
	key := metricKey{name, role}
	if m.sums[key] == nil {
		m.sums[key] = &mean{}
	}
	m.sums[key].sum += value
	m.sums[key].n++
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// rolled counts a group's grades and how its rollouts ended.
func (m *meter) rolled(group []rolled) {
	for _, r := range group {
		m.add("unknown", audit.WholePolicy, truth(r.grade.Unknown))
		m.add("stop_"+string(r.trajectory.Stop), audit.WholePolicy, 1)
		m.add("calls", audit.WholePolicy, float64(len(r.trajectory.Calls())))
		if !r.grade.Unknown {
			m.add(audit.MetricReward, audit.WholePolicy, r.grade.Reward)
			m.add("success", audit.WholePolicy, truth(r.grade.Success))
		}
	}
	m.add("informative", audit.WholePolicy, truth(differ(group)))
}

func (m *meter) output(o *envace.Output) {
	m.add(audit.MetricLength, o.Role, float64(len(o.Tokens)))
	m.add("truncated", o.Role, truth(o.Truncated))
}

func (m *meter) scored(r audit.Reward) {
	m.add("masked", audit.RehearseRole, truth(r.Status == audit.RewardMasked))
	if r.Status != audit.RewardScored {
		return
	}
	m.add(audit.MetricFidelity, audit.RehearseRole, *r.Phi)
	m.add("calibration_term", audit.RehearseRole, r.Term)
	if r.Real.Class == audit.Failed {
		m.add(audit.MetricFSR, audit.RehearseRole, truth(r.FalseSuccess))
	}
}

func (m *meter) learned(l learned) {
	for role, entropy := range l.entropy {
		m.add(audit.MetricEntropy, role, entropy)
	}
	n := float64(l.Tokens)
	if n == 0 {
		return
	}
	m.add("loss", audit.WholePolicy, l.Loss)
	m.add("clip_fraction", audit.WholePolicy, float64(l.Clipped)/n)
	m.add("ratio", audit.WholePolicy, l.Ratio/n)
	m.add("ratio_gap", audit.WholePolicy, l.MaxRatio)
	if l.fast {
		m.add("sampling_gap", audit.WholePolicy, l.gap)
		m.add("importance_weight", audit.WholePolicy, l.Weight/n)
	}
	if l.anchored {
		m.add("kl", audit.WholePolicy, l.KL/n)
	}
	m.add("gradient_norm", audit.WholePolicy, l.Norm)
	m.add("learning_rate", audit.WholePolicy, l.Rate)
	m.add(metricTokens, audit.WholePolicy, n)
}

// metrics are the means, in a stable order; a stop reason's is how often it occurred,
// and the tokens are those of all updates and parameter sets.
func (m *meter) metrics(step int64) []audit.Metric {
	out := make([]audit.Metric, 0, len(m.sums))
	for key, value := range m.sums {
		metric := audit.Metric{Name: key.name, Role: key.role, Step: step, Value: value.sum / value.n}
		if key.name == metricTokens || strings.HasPrefix(key.name, "stop_") {
			metric.Value = value.sum
		}
		out = append(out, metric)
	}
	slices.SortFunc(out, func(a, b audit.Metric) int {
		if a.Name != b.Name {
			if a.Name < b.Name {
				return -1
			}
			return 1
		}
		if a.Role < b.Role {
			return -1
		}
		return 1
	})
	return out
}
