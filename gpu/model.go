package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"understudy/gpu/safetensors"
)

// initDeviation is the standard deviation of random weights (initializer_range
// of both model types).
const initDeviation = 0.02

// Projections of a layer, the matrices that adapters may be put on.
const (
	projQ = iota
	projK
	projV
	projO
	projGate
	projUp
	projDown
	projections
)

// projName is the part of a tensor's name below its layer.
func projName(p int) string {
	return [...]string{
		"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
		"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
	}[p]
}

// projShape is (N,K) of a projection.
func (c Config) projShape(p int) (n, k int) {
	switch p {
	case projQ:
		return c.H * c.D, c.Width
	case projK, projV:
		return c.G * c.D, c.Width
	case projO:
		return c.Width, c.H * c.D
	case projDown:
		return c.Width, c.Hidden
	}
	return c.Hidden, c.Width
}

// Tensor is a parameter by its Hugging Face name.
type Tensor struct {
	Name  string
	Shape []int
	Buffer
}

// size is the number of elements of a shape.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Params is a list of tensors. Those that can be trained lie in one F32
// allocation, matrices first.
type Params struct {
	Tensors []Tensor
	// Values is that allocation; none when the tensors are mapped from files.
	Values Buffer
	// Decayed is how many elements, from the start, are matrices; norms follow.
	Decayed int

	norms Buffer // float32 copies of norms, when the rest is mapped
}

// Trainable reports whether the parameters lie in memory of their own.
func (p *Params) Trainable() bool { return !p.Values.None() }

// lane is how many floats a tensor's start is aligned to: a cache line.
const lane = 16

// newParams allocates zeros for shapes, in float32.
func newParams(dev Device, tensors []Tensor) (*Params, error) { return newParamsOf(dev, F32, tensors) }

func newParamsOf(dev Device, kind DType, tensors []Tensor) (*Params, error) {
	p := &Params{Tensors: tensors}
	offsets, total := make([]int, len(tensors)), 0
	for _, matrices := range []bool{true, false} {
		for i, t := range tensors {
			if (len(t.Shape) > 1) == matrices {
				offsets[i] = total
				total += (size(t.Shape) + lane - 1) / lane * lane
			}
		}
		if matrices {
			p.Decayed = total
		}
	}
	values, err := dev.Alloc(kind, total)
	if err != nil {
		return nil, fmt.Errorf("allocate %d parameters: %w", total, err)
	}
	p.Values = values
	for i, t := range tensors {
		tensors[i].Buffer = values.Slice(offsets[i], offsets[i]+size(t.Shape))
	}
	return p, nil
}

// like allocates zeros of a type in the layout of p, for gradients and moments.
func (p *Params) like(dev Device, kind DType) (*Params, error) {
	tensors := make([]Tensor, len(p.Tensors))
	for i, t := range p.Tensors {
		tensors[i] = Tensor{Name: t.Name, Shape: t.Shape}
	}
	return newParamsOf(dev, kind, tensors)
}

// Find gives the tensor of this name.
func (p *Params) Find(name string) (Tensor, bool) {
	for _, t := range p.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// tensors lists the parameters of a model, without buffers, in the order of the
// forward pass.
func (c Config) tensors() []Tensor {
	list := []Tensor{{Name: "model.embed_tokens.weight", Shape: []int{c.Vocab, c.Width}}}
	add := func(name string, shape ...int) { list = append(list, Tensor{Name: name, Shape: shape}) }
	for l := range c.Layers {
		prefix := fmt.Sprintf("model.layers.%d.", l)
		add(prefix+"input_layernorm.weight", c.Width)
		if c.QKNorm() {
			add(prefix+"self_attn.q_norm.weight", c.D)
			add(prefix+"self_attn.k_norm.weight", c.D)
		}
		add(prefix+"post_attention_layernorm.weight", c.Width)
		for p := range projections {
			n, k := c.projShape(p)
			add(prefix+projName(p)+".weight", n, k)
		}
	}
	add("model.norm.weight", c.Width)
	if !c.Tied {
		add("lm_head.weight", c.Vocab, c.Width)
	}
	return list
}

// weights is the parameters, or their gradients, by their place in the model.
type weights struct {
	embed, norm, head Buffer // (V,C), (C), (V,C); head is embed when tied
	layers            []layerWeights
}

type layerWeights struct {
	norm1, norm2 Buffer // (C), before attention and before the MLP
	qnorm, knorm Buffer // (D), or none
	proj         [projections]Buffer
}

// bind finds each tensor's place.
func (c Config) bind(p *Params) weights {
	byName := map[string]Buffer{}
	for _, t := range p.Tensors {
		byName[t.Name] = t.Buffer
	}
	w := weights{
		embed: byName["model.embed_tokens.weight"], norm: byName["model.norm.weight"],
		head: byName["lm_head.weight"], layers: make([]layerWeights, c.Layers),
	}
	if c.Tied {
		w.head = w.embed
	}
	for l := range w.layers {
		prefix := fmt.Sprintf("model.layers.%d.", l)
		w.layers[l] = layerWeights{
			norm1: byName[prefix+"input_layernorm.weight"], norm2: byName[prefix+"post_attention_layernorm.weight"],
			qnorm: byName[prefix+"self_attn.q_norm.weight"], knorm: byName[prefix+"self_attn.k_norm.weight"],
		}
		for p := range projections {
			w.layers[l].proj[p] = byName[prefix+projName(p)+".weight"]
		}
	}
	return w
}

// Model is a policy's weights on a device. It, its runners and its trainers
// belong to one goroutine at a time.
type Model struct {
	Config
	Params *Params

	dev      Device
	w        weights
	head     Weight // (V,C)
	proj     [][projections]Weight
	adapters []*Adapter
	file     *safetensors.File // that Params point into; nil when they are trainable
}

// Device is where the model lives.
func (m *Model) Device() Device { return m.dev }

// NewRandom makes a trainable model of random weights: the same seed, the same
// weights on every device.
func NewRandom(dev Device, c Config, seed uint64) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("make a random model: %w", err)
	}
	params, err := newParams(dev, c.tensors())
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, t := range params.Tensors {
		values := make([]float32, t.Len)
		deviation := initDeviation
		if strings.HasSuffix(t.Name, "o_proj.weight") || strings.HasSuffix(t.Name, "down_proj.weight") {
			deviation /= math.Sqrt(2 * float64(c.Layers)) // what is added to the residual, as GPT-2 does
		}
		for i := range values {
			values[i] = 1
			if len(t.Shape) > 1 {
				values[i] = float32(rng.NormFloat64() * deviation)
			}
		}
		dev.Upload(t.Buffer, values)
	}
	return newModel(dev, c, params), dev.Sync()
}

// Clone is a trainable copy of the weights, without adapters: such as the
// reference policy of a KL term.
func (m *Model) Clone() (*Model, error) {
	params, err := newParams(m.dev, m.tensors())
	if err != nil {
		return nil, fmt.Errorf("clone the model: %w", err)
	}
	for i, t := range params.Tensors {
		m.dev.Copy(t.Buffer, m.Params.Tensors[i].Buffer)
	}
	return newModel(m.dev, m.Config, params), m.dev.Sync()
}

// newModel puts parameters to their places.
func newModel(dev Device, c Config, params *Params) *Model {
	m := &Model{Config: c, Params: params, dev: dev, w: c.bind(params)}
	m.head = dev.NewWeight(m.w.head, c.Vocab, c.Width)
	m.proj = make([][projections]Weight, c.Layers)
	for l := range m.proj {
		for p := range projections {
			n, k := c.projShape(p)
			m.proj[l][p] = dev.NewWeight(m.w.layers[l].proj[p], n, k)
		}
	}
	return m
}

// Changed tells the device that the parameters were written, which every method
// of this package does by itself: it is for whoever uploads to Params.
func (m *Model) Changed() {
	m.dev.Changed(m.head)
	for l := range m.proj {
		for p := range projections {
			m.dev.Changed(m.proj[l][p])
		}
	}
}
