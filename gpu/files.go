package gpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"understudy/audit/atomicfile"
	"understudy/gpu/safetensors"
)

// LoadConfig says how a model is loaded.
type LoadConfig struct {
	// Trainable copies the weights into float32 memory, where an optimiser may
	// change them; otherwise they stay in the files, mapped.
	Trainable bool
}

// maxShard is the size of a file of weights beyond which Save begins another:
// what Hugging Face's files have.
const maxShard = 5 << 30

// Load reads config.json and *.safetensors of a folder. Tensors that are
// missing, superfluous, of another shape or type, or not finite are refused, by
// file and name.
func Load(dev Device, dir string, c LoadConfig) (*Model, error) {
	config, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	m, err := load(dev, config, file, c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read model: %w", err), file.Close())
	}
	if c.Trainable {
		return m, file.Close()
	}
	m.file = file
	return m, nil
}

func load(dev Device, config Config, file *safetensors.File, c LoadConfig) (*Model, error) {
	list := config.tensors()
	if err := checkNames(config, list, file); err != nil {
		return nil, err
	}
	for _, t := range list { // before memory is asked for: config.json may claim anything
		if _, err := locate(file, t, ""); err != nil {
			return nil, err
		}
	}
	var params *Params
	var err error
	if c.Trainable {
		params, err = newParams(dev, list)
	} else {
		params, err = mapParams(dev, list, file)
	}
	if err != nil {
		return nil, err
	}
	if c.Trainable {
		if err := upload(dev, params, file, ""); err != nil {
			dev.Free(params.Values)
			return nil, err
		}
	}
	return newModel(dev, config, params), dev.Sync()
}

// Close gives the weights' memory back and unmaps their files. Runners and
// trainers are freed before.
func (m *Model) Close() error {
	m.Params.free(m.dev)
	for _, a := range m.adapters {
		m.dev.Free(a.Params.Values)
	}
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// checkNames refuses tensors that the model has no place for: they would be
// silently left out of the computation.
func checkNames(config Config, list []Tensor, file *safetensors.File) error {
	var errs []error
	for _, t := range file.Tensors() {
		known := slices.ContainsFunc(list, func(x Tensor) bool { return x.Name == t.Name })
		// A tied head and tables of frequencies are copies of what is there.
		copied := config.Tied && t.Name == "lm_head.weight" || strings.HasSuffix(t.Name, "rotary_emb.inv_freq")
		if !known && !copied {
			errs = append(errs, fmt.Errorf("%s: tensor %q: a %s model of %d layers has no place for it", t.File, t.Name, config.Type, config.Layers))
		}
		if len(errs) == 5 {
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// find gives the tensor of a parameter, checked with all its elements.
func find(file *safetensors.File, t Tensor, prefix string) (safetensors.Tensor, error) {
	x, err := locate(file, t, prefix)
	if err != nil {
		return x, err
	}
	return x, x.CheckFinite()
}

// locate gives the tensor of a parameter, of the right shape and a type that is known.
func locate(file *safetensors.File, t Tensor, prefix string) (safetensors.Tensor, error) {
	x, err := file.Tensor(prefix + t.Name)
	if err != nil {
		return x, err
	}
	if !slices.Equal(x.Shape, t.Shape) {
		return x, fmt.Errorf("%s: tensor %q has shape %v: the configuration asks for %v", x.File, x.Name, x.Shape, t.Shape)
	}
	if _, ok := dtypes()[x.Type]; !ok {
		return x, fmt.Errorf("%s: tensor %q is of type %s: supported are F32, BF16 and F16", x.File, x.Name, x.Type)
	}
	return x, nil
}

func dtypes() map[safetensors.Type]DType {
	return map[safetensors.Type]DType{safetensors.F32: F32, safetensors.BF16: BF16, safetensors.F16: F16}
}

// mapParams leaves the matrices in the files. Norms, which are few, are copied
// to float32.
func mapParams(dev Device, list []Tensor, file *safetensors.File) (*Params, error) {
	params, err := newParams(dev, norms(list))
	if err != nil {
		return nil, err
	}
	p := &Params{Tensors: list, norms: params.Values}
	if err := upload(dev, params, file, ""); err != nil {
		dev.Free(p.norms)
		return nil, err
	}
	for i, t := range list {
		if norm, ok := params.Find(t.Name); ok {
			list[i].Buffer = norm.Buffer
			continue
		}
		x, err := find(file, t, "")
		if err == nil {
			if list[i].Buffer, err = dev.Map(dtypes()[x.Type], x.Data); err != nil {
				err = fmt.Errorf("%s: tensor %q: %w", x.File, x.Name, err)
			}
		}
		if err != nil {
			p.free(dev)
			return nil, err
		}
	}
	return p, nil
}

func norms(list []Tensor) []Tensor {
	var short []Tensor
	for _, t := range list {
		if len(t.Shape) == 1 {
			short = append(short, t)
		}
	}
	return short
}

// free gives back memory, or mappings, of a device.
func (p *Params) free(dev Device) {
	if p.Trainable() {
		dev.Free(p.Values)
		return
	}
	dev.Free(p.norms)
	for _, t := range p.Tensors {
		if len(t.Shape) > 1 && !t.None() {
			dev.Free(t.Buffer)
		}
	}
}

// upload copies the file's tensors of these names, after a prefix, to p.
func upload(dev Device, p *Params, file *safetensors.File, prefix string) error {
	var values []float32
	for _, t := range p.Tensors {
		x, err := find(file, t, prefix)
		if err != nil {
			return err
		}
		values = grow(values, t.Len)
		if err := x.Read(values, 0); err != nil {
			return err
		}
		dev.Upload(t.Buffer, values)
		if err := dev.Sync(); err != nil { // values are used again
			return err
		}
	}
	return nil
}

// download copies p to tensors of these names, after a prefix.
func download(dev Device, p *Params, prefix string, kind safetensors.Type) ([]safetensors.Tensor, error) {
	list := make([]safetensors.Tensor, 0, len(p.Tensors))
	for _, t := range p.Tensors {
		values := make([]float32, t.Len)
		if err := dev.Download(values, t.Buffer); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", prefix+t.Name, err)
		}
		list = append(list, safetensors.FromFloat32s(prefix+t.Name, kind, t.Shape, values))
	}
	return list, nil
}

// Save writes config.json and the weights, as elements of the given type, into
// a folder that it makes when missing. As float32 they come back bit for bit.
func (m *Model) Save(dir string, t DType) error {
	kind, err := fileType(t)
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	list, err := download(m.dev, m.Params, "", kind)
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	config := m.Config
	config.DType = t
	text, err := config.JSON()
	if err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	if err := safetensors.Save(dir, list, map[string]string{"format": "pt"}, maxShard); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	return atomicfile.Write(filepath.Join(dir, "config.json"), text, 0o644)
}

func fileType(t DType) (safetensors.Type, error) {
	for kind, dtype := range dtypes() {
		if dtype == t {
			return kind, nil
		}
	}
	return "", fmt.Errorf("weights of type %v: supported are float32, bfloat16 and float16", t)
}
