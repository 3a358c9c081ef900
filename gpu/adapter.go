package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// AdapterConfig is the shape of a LoRA adapter (arXiv 2106.09685): beside each
// target projection W (N,K) lie A (Rank,K) and B (N,Rank), and
// y = x·Wᵀ + Alpha/Rank·(x·Aᵀ)·Bᵀ.
type AdapterConfig struct {
	Rank  int
	Alpha float32
	// Targets are names of projections, such as "q_proj"; nil means all seven.
	Targets []string
}

// Adapter is a named adapter of a model, such as one for a role.
type Adapter struct {
	AdapterConfig
	Name   string
	Params *Params

	model  *Model
	layers [][projections]*lora // nil: not a target
}

type lora struct {
	a, b   Weight // (Rank,K), (N,Rank)
	paramA int    // index of A in Params.Tensors; B follows
}

// adapterRows are the rows from..to-1 of a step, which go through an adapter.
type adapterRows struct {
	adapter  *Adapter
	from, to int
}

func (a *Adapter) scale() float32 { return a.Alpha / float32(a.Rank) }

// targetName is how adapters name a projection: "q_proj".
func targetName(p int) string {
	_, name, _ := strings.Cut(projName(p), ".")
	return name
}

// targets lists the projections that the configuration names.
func (c AdapterConfig) targets() ([]int, error) {
	var list []int
	known := make([]string, projections)
	for p := range projections {
		known[p] = targetName(p)
		if c.Targets == nil || slices.Contains(c.Targets, known[p]) {
			list = append(list, p)
		}
	}
	for _, t := range c.Targets {
		if !slices.Contains(known, t) {
			return nil, fmt.Errorf("adapter target %q: targets are %s", t, strings.Join(known, ", "))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("an adapter needs a target: targets are %s", strings.Join(known, ", "))
	}
	return list, nil
}

// AddAdapter puts a new adapter on the model that changes nothing yet: B is
// zero, A uniform within ±1/sqrt(K), from the seed. Runners and trainers made
// before do not know it.
func (m *Model) AddAdapter(name string, c AdapterConfig, seed uint64) (*Adapter, error) {
	a, err := m.emptyAdapter(name, c)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, t := range a.Params.Tensors {
		if !strings.HasSuffix(t.Name, "lora_A.weight") {
			continue
		}
		values, bound := make([]float32, t.Len), 1/math.Sqrt(float64(t.Shape[1]))
		for i := range values {
			values[i] = float32((2*rng.Float64() - 1) * bound)
		}
		m.dev.Upload(t.Buffer, values)
	}
	m.adapters = append(m.adapters, a)
	return a, m.dev.Sync()
}

// emptyAdapter allocates an adapter of zeros, in PEFT's names.
func (m *Model) emptyAdapter(name string, c AdapterConfig) (*Adapter, error) {
	if _, taken := m.Adapter(name); taken || name == "" {
		return nil, fmt.Errorf("adapter %q: the name must be new and not empty", name)
	}
	if c.Rank < 1 || c.Rank > m.Width || !(c.Alpha > 0) {
		return nil, fmt.Errorf("adapter %q: rank %d must be in 1..%d and alpha %v positive", name, c.Rank, m.Width, c.Alpha)
	}
	targets, err := c.targets()
	if err != nil {
		return nil, err
	}
	var list []Tensor
	for l := range m.Layers {
		for _, p := range targets {
			n, k := m.projShape(p)
			prefix := fmt.Sprintf("base_model.model.model.layers.%d.%s.", l, projName(p))
			list = append(list,
				Tensor{Name: prefix + "lora_A.weight", Shape: []int{c.Rank, k}},
				Tensor{Name: prefix + "lora_B.weight", Shape: []int{n, c.Rank}})
		}
	}
	params, err := newParams(m.dev, list)
	if err != nil {
		return nil, fmt.Errorf("adapter %q: %w", name, err)
	}
	a := &Adapter{AdapterConfig: c, Name: name, Params: params, model: m, layers: make([][projections]*lora, m.Layers)}
	i := 0
	for l := range m.Layers {
		for _, p := range targets {
			n, k := m.projShape(p)
			a.layers[l][p] = &lora{
				a:      m.dev.NewWeight(params.Tensors[i].Buffer, c.Rank, k),
				b:      m.dev.NewWeight(params.Tensors[i+1].Buffer, n, c.Rank),
				paramA: i,
			}
			i += 2
		}
	}
	return a, nil
}

// Adapter finds an adapter by its name.
func (m *Model) Adapter(name string) (*Adapter, bool) {
	for _, a := range m.adapters {
		if a.Name == name {
			return a, true
		}
	}
	return nil, false
}

// Changed is Model.Changed for the adapter's parameters.
func (a *Adapter) Changed() {
	for l := range a.layers {
		for _, x := range a.layers[l] {
			if x != nil {
				a.model.dev.Changed(x.a)
				a.model.dev.Changed(x.b)
			}
		}
	}
}

// adapterRows checks the spans of a step of rows and finds their adapters.
func (m *Model) adapterRows(spans []Span, rows, maxRank int) ([]adapterRows, error) {
	list, end := make([]adapterRows, 0, len(spans)), 0
	for _, s := range spans {
		a, ok := m.Adapter(s.Adapter)
		switch {
		case !ok:
			return nil, fmt.Errorf("the model has no adapter %q", s.Adapter)
		case a.Rank > maxRank:
			return nil, fmt.Errorf("adapter %q was added after this memory was planned: make it anew", s.Adapter)
		case s.From < end || s.To <= s.From || s.To > rows:
			return nil, fmt.Errorf("rows %d..%d of adapter %q: spans must ascend within %d rows", s.From, s.To, s.Adapter, rows)
		}
		list, end = append(list, adapterRows{a, s.From, s.To}), s.To
	}
	return list, nil
}

// maxRank is the greatest rank of the adapters there are.
func (m *Model) maxRank() int {
	rank := 0
	for _, a := range m.adapters {
		rank = max(rank, a.Rank)
	}
	return rank
}

// maxN is the greatest width that a projection has, in or out.
func (c Config) maxN() int { return max(c.Width, c.H*c.D, c.Hidden) }
