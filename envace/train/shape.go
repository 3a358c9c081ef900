package train

import (
	"cmp"
	"errors"
	"fmt"

	"understudy/audit"
	"understudy/gpu"
)

// config is the shape of a random model with a vocabulary of so many words.
func (s Shape) config(vocabulary int) gpu.Config {
	return gpu.Config{
		Type: gpu.Qwen3, Layers: s.Layers, Width: s.Width, Hidden: s.Hidden, Vocab: vocabulary, Context: s.Context,
		Heads: gpu.Heads{H: s.Heads, G: s.KVHeads, D: s.Head}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: cmp.Or(s.Theta, 10000)}, Tied: !s.Untied, BOS: -1,
	}
}

// Real is the shape that the recipe's model has: its folder's, else as it is written.
func (s Shape) Real() (gpu.Config, error) {
	if s.Dir == "" {
		if s.Vocabulary == 0 || s.Layers == 0 {
			return gpu.Config{}, &audit.Error{Code: audit.CodeInvalid, Message: "the recipe says neither the model's folder nor its dimensions", Hint: "give --model-dir, or write layers, width, vocabulary and the rest"}
		}
		c := s.config(s.Vocabulary)
		return c, c.Validate()
	}
	c, err := gpu.ReadConfig(s.Dir)
	if err != nil {
		return c, unreadable(s.Dir, err)
	}
	return c, s.fits(c)
}

// unreadable says that a folder holds no model.
func unreadable(folder string, err error) error {
	return &audit.Error{Code: audit.CodeInvalid, Message: "read the model in " + folder, Err: err, Hint: "give a folder with config.json, tokenizer.json and *.safetensors"}
}

// fits refuses a folder that holds another model than the recipe is for.
func (s Shape) fits(c gpu.Config) error {
	var faults []error
	for _, x := range []struct {
		name         string
		wanted, held int
	}{
		{"layers", s.Layers, c.Layers},
		{"width", s.Width, c.Width},
		{"hidden", s.Hidden, c.Hidden},
		{"heads", s.Heads, c.H},
		{"kv_heads", s.KVHeads, c.G},
		{"head", s.Head, c.D},
		{"vocabulary", s.Vocabulary, c.Vocab},
	} {
		if x.wanted > 0 && x.wanted != x.held {
			faults = append(faults, fmt.Errorf("%s: %d, the recipe says %d", x.name, x.held, x.wanted))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("%s is not the recipe's model %s", s.Dir, s.Base), Err: err,
			Hint: "give that model's folder, or a recipe of your own whose model has no dimensions",
		}
	}
	return nil
}
