package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/chat"
	"understudy/gpu/host"
	"understudy/gpu/tokenizer"
)

// plainChatML is the template that most small chat models come with.
const plainChatML = `{% for message in messages %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}`

// modelFolder is a tiny model of random weights in Hugging Face's layout.
func modelFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tiny-model")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Train(slices.Values([]string{strings.Repeat(`<execution_result>{"status": "ok"}</execution_result> `, 20)}), tokenizer.TrainConfig{
		Size: 300, Added: []tokenizer.AddedToken{{Content: "<|im_start|>", Special: true}, {Content: "<|im_end|>", Special: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := host.New(host.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := gpu.NewRandom(dev, gpu.Config{
		Type: gpu.Llama, Layers: 1, Width: 16, Hidden: 24, Vocab: tok.Size(), Context: 8192,
		Heads: gpu.Heads{H: 4, G: 2, D: 4}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1, EOS: []int32{1},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]string{"chat_template": plainChatML})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{m.Save(dir, gpu.F32), tok.Save(dir), os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), config, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A model whose weights are here is audited without any server.
func TestAuditOfAModelFolder(t *testing.T) {
	t.Parallel()
	if _, err := chat.Recognize(plainChatML); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	out := d.do(0, "audit", "--model", modelFolder(t), "--environment", "retail-mini@1", "--tasks", "2", "--canaries", "3", "--policy-name", "tiny", "--run", "random")
	d.says(out, "queued 5 episodes on retail-mini@1 as run random", "canary")
	d.says(d.do(3, "audit", "--model", "no-such-folder", "--environment", "retail-mini@1"), "load the model in no-such-folder", "hint: give a folder with config.json")
}
