package gpu_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"understudy/gpu"
)

const smolLM2 = `{"model_type": "llama", "hidden_act": "silu", "hidden_size": 576, "intermediate_size": 1536,
 "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
 "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 100000, "rope_scaling": null,
 "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false, "bos_token_id": 1, "eos_token_id": 2,
 "torch_dtype": "bfloat16"}`

func TestParseConfig(t *testing.T) {
	got, err := gpu.ParseConfig([]byte(smolLM2))
	want := gpu.Config{
		Type: gpu.Llama, Layers: 30, Width: 576, Hidden: 1536, Vocab: 49152, Context: 8192,
		Heads: gpu.Heads{H: 9, G: 3, D: 64}, Eps: 1e-5, RoPE: gpu.RoPE{Theta: 100000}, Tied: true,
		BOS: 1, EOS: []int32{2}, DType: gpu.BF16,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	text, err := got.JSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := gpu.ParseConfig(text)
	if err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
	if !strings.Contains(string(text), `"rms_norm_eps": 0.00001,`) && !strings.Contains(string(text), `"rms_norm_eps": 1e-05`) && !strings.Contains(string(text), `"rms_norm_eps": 1e-5`) {
		t.Errorf("eps has more digits than it was read with:\n%s", text)
	}
}

// Some versions of transformers write both the old name and the new one.
func TestParseConfigTwice(t *testing.T) {
	text := strings.NewReplacer(
		`"torch_dtype"`, `"dtype": "bfloat16", "torch_dtype"`,
		`"rope_scaling": null`, `"rope_scaling": {"type": "llama3", "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}`,
	).Replace(smolLM2)
	c, err := gpu.ParseConfig([]byte(text))
	if err != nil || c.DType != gpu.BF16 || c.RoPE.Factor != 8 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, tc := range []struct{ old, with, want, reason string }{
		{`"llama"`, `"mixtral"`, `model_type is "mixtral": supported are "qwen3" and "llama"`, "experts need another MLP"},
		{`"silu"`, `"gelu"`, `hidden_act is "gelu"`, "another activation, silently wrong otherwise"},
		{`"attention_bias": false`, `"attention_bias": true`, "attention_bias", "Qwen2 has biases"},
		{`"mlp_bias": false`, `"mlp_bias": true`, "mlp_bias", "biases again"},
		{`"rope_scaling": null`, `"rope_scaling": {"rope_type": "yarn", "factor": 4}`, `rope_scaling is of type "yarn"`, "another rotation"},
		{`"rope_scaling": null`, `"rope_scaling": {"rope_type": "llama3", "factor": 4}`, "low_freq_factor", "parts are missing"},
		{`"rope_scaling": null`, `"layer_types": ["sliding_attention"]`, "sliding_attention", "windows"},
		{`"rope_scaling": null`, `"quantization_config": {"bits": 4}`, "quantization_config", "packed integers"},
		{`"rope_scaling": null`, `"partial_rotary_factor": 0.5`, "partial_rotary_factor", "part of a head"},
		{`"num_key_value_heads": 3`, `"num_key_value_heads": 4`, "multiple of num_key_value_heads", "9 heads over 4"},
		{`"vocab_size": 49152`, `"vocab_size": 0`, "vocab_size is 0", "no embedding"},
		{`"hidden_size": 576`, `"hidden_size": 9000000000`, "hidden_size is 9000000000", "sizes stay within an int"},
		{`"rms_norm_eps": 1e-05`, `"rms_norm_eps": 0`, "rms_norm_eps", "division by zero"},
		{`"eos_token_id": 2`, `"eos_token_id": [2, 70000]`, "eos_token_id holds 70000", "a token that is never sampled"},
		{`"torch_dtype": "bfloat16"`, `"torch_dtype": "float8_e4m3fn"`, "torch_dtype", "unknown elements"},
		{`{"model_type"`, `[{"model_type"`, "JSON", "no object"},
	} {
		text := strings.Replace(smolLM2, tc.old, tc.with, 1)
		if text == smolLM2 {
			t.Fatalf("%s: nothing was replaced", tc.reason)
		}
		if _, err := gpu.ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(smolLM2))
	f.Add([]byte(`{"model_type":"qwen3","eos_token_id":[1,2],"rope_parameters":{"rope_theta":1e6}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := gpu.ParseConfig(data)
		if err != nil {
			return
		}
		text, err := c.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := gpu.ParseConfig(text)
		if err != nil || again.Heads != c.Heads || again.Eps != c.Eps || again.RoPE != c.RoPE {
			t.Errorf("written and read again: %+v, %v, want %+v", again, err, c)
		}
	})
}

// TestConfigIsAFile: a pipe in its place is refused at once; opening it would wait for
// whoever writes it.
func TestConfigIsAFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "config.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := gpu.ReadConfig(dir); err == nil || !strings.Contains(err.Error(), "named pipe") {
		t.Errorf("%v; want it refused as a pipe", err)
	}
}
