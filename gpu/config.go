package gpu

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

	"understudy/gpu/regular"
)

// The model types that the engine knows.
const (
	Qwen3 = "qwen3" // norms of queries and keys
	Llama = "llama" // also SmolLM2, TinyLlama
)

// Config is the shape of a model. [ReadConfig] takes it from a Hugging Face
// config.json.
type Config struct {
	Type    string // Qwen3 or Llama
	Layers  int    // L
	Width   int    // C
	Hidden  int    // F, the width of the MLP
	Vocab   int    // V, rows of the embedding (may exceed the tokenizer's ids)
	Context int    // tokens that the model was made for
	Heads          // H, G, D
	Eps     float32
	RoPE    RoPE
	Tied    bool    // the head is the embedding
	BOS     int32   // −1: none
	EOS     []int32 // any of these ends a text
	DType   DType   // of the weights in files
}

// RoPE is the rotation of queries and keys: pair i of D/2 turns by
// position·Theta^(−2i/D). Factor > 0 stretches the slow pairs as Llama 3.1 does.
type RoPE struct {
	Theta               float64
	Factor              float64 // 0: no stretching
	LowFreq, HighFreq   float64 // low_freq_factor, high_freq_factor
	OriginalContextSize float64 // original_max_position_embeddings
}

// QKNorm reports whether queries and keys are normalised per head.
func (c Config) QKNorm() bool { return c.Type == Qwen3 }

// configFile is what config.json says; only what changes the computation.
type configFile struct {
	ModelType        string         `json:"model_type"`
	Layers           int            `json:"num_hidden_layers"`
	Width            int            `json:"hidden_size"`
	Hidden           int            `json:"intermediate_size"`
	Vocab            int            `json:"vocab_size"`
	Context          int            `json:"max_position_embeddings"`
	Heads            int            `json:"num_attention_heads"`
	KVHeads          int            `json:"num_key_value_heads"`
	HeadDim          int            `json:"head_dim,omitempty"`
	Activation       string         `json:"hidden_act"`
	Eps              float64        `json:"rms_norm_eps"`
	Theta            float64        `json:"rope_theta,omitempty"`
	Scaling          *ropeFile      `json:"rope_scaling"`
	RoPE             *ropeFile      `json:"rope_parameters,omitempty"` // transformers 5
	Tied             bool           `json:"tie_word_embeddings"`
	AttentionBias    bool           `json:"attention_bias"`
	MLPBias          bool           `json:"mlp_bias"`
	SlidingWindow    bool           `json:"use_sliding_window,omitempty"`
	LayerTypes       []string       `json:"layer_types,omitempty"`
	Quantization     map[string]any `json:"quantization_config,omitempty"`
	PartialRotary    float64        `json:"partial_rotary_factor,omitempty"`
	BOS              *int32         `json:"bos_token_id"`
	EOS              intOrInts      `json:"eos_token_id"`
	TorchDType       string         `json:"torch_dtype,omitempty"`
	DType            string         `json:"dtype,omitempty"` // transformers 5
	Architectures    []string       `json:"architectures,omitempty"`
	PretrainingTP    int            `json:"pretraining_tp,omitempty"`
	InitializerRange float64        `json:"initializer_range,omitempty"`
}

type ropeFile struct {
	Type     string  `json:"rope_type,omitempty"`
	OldType  string  `json:"type,omitempty"`
	Theta    float64 `json:"rope_theta,omitempty"`
	Factor   float64 `json:"factor,omitempty"`
	LowFreq  float64 `json:"low_freq_factor,omitempty"`
	HighFreq float64 `json:"high_freq_factor,omitempty"`
	Original float64 `json:"original_max_position_embeddings,omitempty"`
}

// intOrInts reads null, 2 or [2, 3].
type intOrInts []int32

// UnmarshalJSON reads null, 2 or [2, 3].
func (x *intOrInts) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]int32)(x))
	}
	var one *int32
	if err := json.Unmarshal(data, &one); err != nil || one == nil {
		return err
	}
	*x = intOrInts{*one}
	return nil
}

// mostConfig is more bytes than any configuration has.
const mostConfig = 16 << 20

// ReadConfig reads config.json of a model's folder. It refuses, all faults at
// once, what the engine would compute wrongly.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, "config.json")
	data, err := regular.Read(path, mostConfig)
	if err != nil {
		return Config{}, fmt.Errorf("read model: %w", err)
	}
	c, err := ParseConfig(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig is ReadConfig of the file's text.
func ParseConfig(data []byte) (Config, error) {
	var f configFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Config{}, fmt.Errorf("no valid JSON: %w", err)
	}
	if f.ModelType != Qwen3 && f.ModelType != Llama {
		return Config{}, fmt.Errorf("model_type is %q: supported are %q and %q", f.ModelType, Qwen3, Llama)
	}
	if f.KVHeads == 0 {
		f.KVHeads = f.Heads
	}
	if f.HeadDim == 0 && f.Heads > 0 {
		f.HeadDim = f.Width / f.Heads
	}
	c := Config{
		Type: f.ModelType, Layers: f.Layers, Width: f.Width, Hidden: f.Hidden, Vocab: f.Vocab, Context: f.Context,
		Heads: Heads{H: f.Heads, G: f.KVHeads, D: f.HeadDim}, Eps: float32(f.Eps), Tied: f.Tied, BOS: -1, EOS: f.EOS,
	}
	if f.BOS != nil {
		c.BOS = *f.BOS
	}
	var ropeErr, typeErr error
	c.RoPE, ropeErr = f.rope()
	c.DType, typeErr = parseDType(cmp.Or(f.DType, f.TorchDType))
	if err := errors.Join(f.unsupported(), ropeErr, typeErr); err != nil {
		return Config{}, err
	}
	return c, c.Validate()
}

// unsupported names what would need another forward pass.
func (f configFile) unsupported() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(f.Activation != "silu", "hidden_act is %q: supported is \"silu\"", f.Activation)
	refuse(f.AttentionBias, "attention_bias is true: supported are projections without bias")
	refuse(f.MLPBias, "mlp_bias is true: supported are projections without bias")
	refuse(f.SlidingWindow, "use_sliding_window is true: supported is attention to the whole context")
	for _, t := range f.LayerTypes {
		refuse(t != "full_attention", "layer_types holds %q: supported is \"full_attention\"", t)
	}
	refuse(f.Quantization != nil, "quantization_config is set: supported are float32, bfloat16 and float16 weights")
	refuse(f.PartialRotary != 0 && f.PartialRotary != 1, "partial_rotary_factor is %v: supported is 1", f.PartialRotary)
	return errors.Join(errs...)
}

// rope reads both the old fields and those of transformers 5.
func (f configFile) rope() (RoPE, error) {
	r := RoPE{Theta: f.Theta}
	s := f.Scaling
	if f.RoPE != nil {
		s = f.RoPE
		r.Theta = max(r.Theta, s.Theta)
	}
	if r.Theta == 0 {
		r.Theta = 10000
	}
	if s == nil {
		return r, nil
	}
	switch kind := cmp.Or(s.Type, s.OldType); kind {
	case "", "default":
	case "llama3":
		r.Factor, r.LowFreq, r.HighFreq, r.OriginalContextSize = s.Factor, s.LowFreq, s.HighFreq, s.Original
		if r.Factor <= 0 || r.LowFreq <= 0 || r.HighFreq <= r.LowFreq || r.OriginalContextSize <= 0 {
			return r, errors.New("rope_scaling: llama3 needs factor, low_freq_factor < high_freq_factor and original_max_position_embeddings")
		}
	default:
		return r, fmt.Errorf("rope_scaling is of type %q: supported are none, \"default\" and \"llama3\"", kind)
	}
	return r, nil
}

func parseDType(name string) (DType, error) {
	switch name {
	case "float32", "":
		return F32, nil
	case "bfloat16":
		return BF16, nil
	case "float16":
		return F16, nil
	}
	return F32, fmt.Errorf("torch_dtype is %q: supported are float32, bfloat16 and float16", name)
}

// String is the type's name in config.json.
func (t DType) String() string {
	return [...]string{F32: "float32", BF16: "bfloat16", F16: "float16", I32: "int32"}[t]
}

// Validate lists all faults of a shape.
func (c Config) Validate() error {
	var errs []error
	for _, x := range []struct {
		field string
		value int
		limit int // far above any model of these types; keeps products within int
	}{
		{"num_hidden_layers", c.Layers, 1 << 10},
		{"hidden_size", c.Width, 1 << 17},
		{"intermediate_size", c.Hidden, 1 << 19},
		{"vocab_size", c.Vocab, 1 << 21},
		{"max_position_embeddings", c.Context, 1 << 24},
		{"num_attention_heads", c.H, 1 << 12},
		{"num_key_value_heads", c.G, 1 << 12},
		{"head_dim", c.D, 1 << 12},
	} {
		if x.value < 1 || x.value > x.limit {
			errs = append(errs, fmt.Errorf("%s is %d: it must be between 1 and %d", x.field, x.value, x.limit))
		}
	}
	if c.G > 0 && c.H%c.G != 0 {
		errs = append(errs, fmt.Errorf("num_attention_heads is %d: it must be a multiple of num_key_value_heads, %d", c.H, c.G))
	}
	if c.D%2 != 0 {
		errs = append(errs, fmt.Errorf("head_dim is %d: it must be even", c.D))
	}
	if eps := float64(c.Eps); !(eps > 0) || math.IsInf(eps, 0) {
		errs = append(errs, fmt.Errorf("rms_norm_eps is %v: it must be positive", c.Eps))
	}
	if !(c.RoPE.Theta > 1) || math.IsInf(c.RoPE.Theta, 0) {
		errs = append(errs, fmt.Errorf("rope_theta is %v: it must be greater than 1", c.RoPE.Theta))
	}
	for _, id := range c.EOS {
		if id < 0 || int(id) >= c.Vocab {
			errs = append(errs, fmt.Errorf("eos_token_id holds %d: it must be below vocab_size, %d", id, c.Vocab))
		}
	}
	return errors.Join(errs...)
}

// JSON is the config.json of the shape, readable by transformers 4 and 5.
func (c Config) JSON() ([]byte, error) {
	f := configFile{
		ModelType: c.Type, Layers: c.Layers, Width: c.Width, Hidden: c.Hidden, Vocab: c.Vocab, Context: c.Context,
		Heads: c.H, KVHeads: c.G, HeadDim: c.D, Activation: "silu", Eps: shortest(c.Eps), Theta: c.RoPE.Theta,
		Tied: c.Tied, EOS: c.EOS, TorchDType: c.DType.String(), InitializerRange: initDeviation,
		Architectures: []string{map[string]string{Qwen3: "Qwen3ForCausalLM", Llama: "LlamaForCausalLM"}[c.Type]},
	}
	if c.BOS >= 0 {
		f.BOS = &c.BOS
	}
	if r := c.RoPE; r.Factor > 0 {
		f.Scaling = &ropeFile{Type: "llama3", Factor: r.Factor, LowFreq: r.LowFreq, HighFreq: r.HighFreq, Original: r.OriginalContextSize}
	}
	return json.MarshalIndent(f, "", "  ")
}

// shortest is the float64 with the fewest digits that rounds to x: 1e-6, not
// 9.999999974752427e-07.
func shortest(x float32) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
	if err != nil {
		return float64(x)
	}
	return y
}

// ropeTable is (positions,D): D/2 cosines, then D/2 sines of each position.
func (c Config) ropeTable(positions int) []float32 {
	half := c.D / 2
	table := make([]float32, positions*c.D)
	for i := range half {
		frequency := c.RoPE.stretched(math.Pow(c.RoPE.Theta, -2*float64(i)/float64(c.D)))
		for p := range positions {
			sin, cos := math.Sincos(float64(p) * frequency)
			table[p*c.D+i], table[p*c.D+half+i] = float32(cos), float32(sin)
		}
	}
	return table
}

// stretched divides frequencies whose wave is longer than
// OriginalContextSize/LowFreq by Factor, leaves those shorter than
// OriginalContextSize/HighFreq, and goes over smoothly between.
func (r RoPE) stretched(frequency float64) float64 {
	if r.Factor == 0 {
		return frequency
	}
	waves := r.OriginalContextSize * frequency / (2 * math.Pi)
	keep := min(1, max(0, (waves-r.LowFreq)/(r.HighFreq-r.LowFreq)))
	return frequency*keep + frequency/r.Factor*(1-keep)
}
