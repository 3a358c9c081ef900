package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"understudy/audit/atomicfile"
	"understudy/gpu/regular"
	"understudy/gpu/safetensors"
)

// Files of an adapter, as PEFT names them.
const (
	adapterConfigFile  = "adapter_config.json"
	adapterWeightsFile = "adapter_model.safetensors"
)

// adapterFile is adapter_config.json; only what changes the computation.
type adapterFile struct {
	PEFTType string   `json:"peft_type"`
	Task     string   `json:"task_type,omitempty"`
	Rank     int      `json:"r"`
	Alpha    float32  `json:"lora_alpha"`
	Targets  []string `json:"target_modules"`
	Bias     string   `json:"bias"`
	RSLoRA   bool     `json:"use_rslora,omitempty"`
	DoRA     bool     `json:"use_dora,omitempty"`
	FanInOut bool     `json:"fan_in_fan_out,omitempty"`
	Saved    []string `json:"modules_to_save,omitempty"`
	Ranks    patterns `json:"rank_pattern,omitempty"`
	Alphas   patterns `json:"alpha_pattern,omitempty"`
}

type patterns map[string]float64

// Save writes the adapter in PEFT's layout into a folder that it makes when missing.
func (a *Adapter) Save(dir string) error {
	list, err := download(a.model.dev, a.Params, "", safetensors.F32)
	if err != nil {
		return fmt.Errorf("save adapter %q: %w", a.Name, err)
	}
	f := adapterFile{PEFTType: "LORA", Task: "CAUSAL_LM", Rank: a.Rank, Alpha: a.Alpha, Targets: a.targetNames(), Bias: "none"}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("save adapter %q: %w", a.Name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save adapter %q: %w", a.Name, err)
	}
	if err := safetensors.Write(filepath.Join(dir, adapterWeightsFile), list, map[string]string{"format": "pt"}); err != nil {
		return fmt.Errorf("save adapter %q: %w", a.Name, err)
	}
	return atomicfile.Write(filepath.Join(dir, adapterConfigFile), text, 0o644)
}

func (a *Adapter) targetNames() []string {
	var names []string
	for p, lora := range a.layers[0] {
		if lora != nil {
			names = append(names, targetName(p))
		}
	}
	return names
}

// LoadAdapter puts an adapter that Save or PEFT wrote on the model, under a name.
func (m *Model) LoadAdapter(name, dir string) (*Adapter, error) {
	c, err := readAdapterConfig(filepath.Join(dir, adapterConfigFile))
	if err != nil {
		return nil, fmt.Errorf("read adapter: %w", err)
	}
	a, err := m.emptyAdapter(name, c)
	if err != nil {
		return nil, err
	}
	if err := a.load(filepath.Join(dir, adapterWeightsFile)); err != nil {
		m.dev.Free(a.Params.Values)
		return nil, fmt.Errorf("read adapter: %w", err)
	}
	m.adapters = append(m.adapters, a)
	return a, nil
}

func (a *Adapter) load(path string) error {
	file, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	err = checkAdapterNames(a, file)
	if err == nil {
		err = upload(a.model.dev, a.Params, file, "")
	}
	return errors.Join(err, file.Close())
}

func readAdapterConfig(path string) (AdapterConfig, error) {
	data, err := regular.Read(path, mostConfig)
	if err != nil {
		return AdapterConfig{}, err
	}
	var f adapterFile
	if err := json.Unmarshal(data, &f); err != nil {
		return AdapterConfig{}, fmt.Errorf("%s: no valid JSON: %w", path, err)
	}
	var errs []error
	for _, x := range []struct {
		bad  bool
		text string
	}{
		{f.PEFTType != "LORA", fmt.Sprintf("peft_type is %q: supported is \"LORA\"", f.PEFTType)},
		{f.Bias != "" && f.Bias != "none", fmt.Sprintf("bias is %q: supported is \"none\"", f.Bias)},
		{f.RSLoRA || f.DoRA || f.FanInOut, "use_rslora, use_dora and fan_in_fan_out are not supported"},
		{len(f.Saved) > 0 || len(f.Ranks) > 0 || len(f.Alphas) > 0, "modules_to_save, rank_pattern and alpha_pattern are not supported"},
	} {
		if x.bad {
			errs = append(errs, fmt.Errorf("%s: %s", path, x.text))
		}
	}
	return AdapterConfig{Rank: f.Rank, Alpha: f.Alpha, Targets: f.Targets}, errors.Join(errs...)
}

func checkAdapterNames(a *Adapter, file *safetensors.File) error {
	for _, t := range file.Tensors() {
		if !slices.ContainsFunc(a.Params.Tensors, func(x Tensor) bool { return x.Name == t.Name }) {
			return fmt.Errorf("%s: tensor %q: the adapter's configuration has no place for it", t.File, t.Name)
		}
	}
	return nil
}

// Merge adds an adapter to the model's own weights, W += Alpha/Rank·B·A, and
// takes it off the model. The weights must be trainable.
func (m *Model) Merge(name string) error {
	a, ok := m.Adapter(name)
	switch {
	case !ok:
		return fmt.Errorf("merge: the model has no adapter %q", name)
	case !m.Params.Trainable():
		return fmt.Errorf("merge adapter %q: the weights are mapped from files: load the model as trainable", name)
	}
	for l := range m.proj {
		for p, w := range m.proj[l] {
			if lora := a.layers[l][p]; lora != nil {
				if err := m.mergeInto(w, lora, a.scale()); err != nil {
					return fmt.Errorf("merge adapter %q: %w", name, err)
				}
			}
		}
	}
	m.adapters = slices.DeleteFunc(m.adapters, func(x *Adapter) bool { return x == a })
	m.dev.Free(a.Params.Values)
	m.Changed()
	return m.dev.Sync()
}

func (m *Model) mergeInto(w Weight, x *lora, scale float32) error {
	base, a, b := make([]float32, w.Len), make([]float32, x.a.Len), make([]float32, x.b.Len)
	if err := errors.Join(m.dev.Download(base, w.Buffer), m.dev.Download(a, x.a.Buffer), m.dev.Download(b, x.b.Buffer)); err != nil {
		return err
	}
	for n := range w.N {
		for k := range w.K {
			sum := 0.0
			for r := range x.a.N {
				sum += float64(b[n*x.a.N+r]) * float64(a[r*w.K+k])
			}
			base[n*w.K+k] = float32(float64(base[n*w.K+k]) + float64(scale)*sum)
		}
	}
	m.dev.Upload(w.Buffer, base)
	return m.dev.Sync()
}
