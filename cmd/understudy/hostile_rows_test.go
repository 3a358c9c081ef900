package main_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// hostileJSON are texts that break what reads JSON.
func hostileJSON() map[string]string {
	keys := func() string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range many {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"k%d":0`, i)
		}
		b.WriteByte('}')
		return b.String()
	}
	return map[string]string{
		"nothing":                   "",
		"half of an object":         `{"messages":[{"role"`,
		"no JSON":                   "\x89PNG\r\n\x1a\n",
		"NaN and Infinity":          `{"a":NaN,"b":-Infinity}`,
		"100,000 nested arrays":     strings.Repeat("[", nested) + strings.Repeat("]", nested),
		"duplicate keys":            `{"policy":"a","policy":"b"}`,
		"1e400 and 400 digits":      `{"a":1e400,"b":` + strings.Repeat("9", 400) + `}`,
		"a lone surrogate":          `{"a":"\ud83d"}`,
		"NUL":                       `{"a":"\u0000"}` + "\x00",
		"bytes that are no text":    "{\"a\":\"\xff\xfe\"}",
		"a byte order mark":         "\ufeff{}",
		"UTF-16":                    "\xff\xfe{\x00}\x00",
		"1,000,000 keys":            keys(),
		"a million empty outputs":   `{"outputs":[` + strings.Repeat("{},", many) + `{}]}`,
		"an array of a million":     "[" + strings.Repeat("0,", many) + "0]",
		"a string of terminal code": `"\u001b]52;c;cm0gLXJm\u0007"`,
	}
}

// hostileYAML are texts that break what reads YAML.
func hostileYAML() map[string]string {
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&bomb, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	return map[string]string{
		"nothing":                     "",
		"no YAML":                     "\x89PNG\r\n\x1a\n",
		"100,000 nested lists":        strings.Repeat("[", nested),
		"100,000 nested dashes":       strings.Repeat("- ", nested),
		"aliases that unfold to 9^10": bomb.String(),
		"an alias of itself":          "a: &a [*a]\n",
		"duplicate keys":              "version: 1\nversion: 2\n",
		"a tag that makes an object":  "version: !!python/object/apply:os.system [id]\n",
		".nan and .inf":               "version: .nan\nmax: .inf\n",
		"NUL":                         "version: 1\x00\n",
		"a key that nobody knows":     "verzion: 1\n",
		"two documents":               "version: 1\n---\nversion: 2\n",
	}
}

func hostileRows() []hostileRow {
	rows := modelRows()
	texts := hostileJSON()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		rows = append(rows,
			hostileRow{"import", name, func(w *hostileWorld) (int, string) {
				return w.command("import", w.write("import.json", text), "--environment", "retail@1")
			}},
			hostileRow{"arguments of a tool", name, func(w *hostileWorld) (int, string) {
				return w.command("sandbox", "call", "retail", "get_order", text)
			}},
			hostileRow{"HTTP POST /v1/score", name, func(w *hostileWorld) (int, string) { return w.request(http.MethodPost, "/v1/score", text) }},
		)
		if len(text) < 4<<20 { // the service hangs up on what is longer, and a sender may not hear why
			rows = append(rows, hostileRow{"HTTP POST /v1/trainings", name, func(w *hostileWorld) (int, string) { return w.request(http.MethodPost, "/v1/trainings", text) }})
		}
	}
	texts = hostileYAML()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		rows = append(rows,
			hostileRow{"gate policy", name, func(w *hostileWorld) (int, string) {
				return w.command("gate", "--run", "r", "--policy", w.write("gate.yaml", text))
			}},
			hostileRow{"HTTP POST /v1/gates", name, func(w *hostileWorld) (int, string) {
				body, err := json.Marshal(map[string]string{"policy": text, "run": "r"})
				if err != nil {
					w.t.Error(err)
				}
				return w.request(http.MethodPost, "/v1/gates", string(body))
			}},
			hostileRow{"environments", name, func(w *hostileWorld) (int, string) {
				return w.command("sandbox", "tools", "shop", "--environments", w.write("environments.yaml", text))
			}},
			hostileRow{"settings", name, func(w *hostileWorld) (int, string) {
				return w.command("report", "--config", w.write("settings.yaml", text))
			}},
		)
	}
	rows = append(rows, specialRows()...)
	return append(append(append(rows, fileRows()...), domainRows()...), pathRows()...)
}

// specialRows are files of settings that are none: reading them would not end.
func specialRows() []hostileRow {
	var rows []hostileRow
	for _, where := range []struct {
		name string
		read func(w *hostileWorld, path string) (int, string)
	}{
		{"gate policy", func(w *hostileWorld, path string) (int, string) {
			return w.command("gate", "--run", "r", "--policy", path)
		}},
		{"gate verify", func(w *hostileWorld, path string) (int, string) { return w.command("gate", "verify", path) }},
		{"settings", func(w *hostileWorld, path string) (int, string) { return w.command("report", "--config", path) }},
		{"environments", func(w *hostileWorld, path string) (int, string) {
			return w.command("sandbox", "tools", "shop", "--environments", path)
		}},
	} {
		rows = append(rows, hostileRow{where.name, "a device without end", func(w *hostileWorld) (int, string) { return where.read(w, "/dev/zero") }})
	}
	return rows
}

// modelRows are folders of models: serving one fails before anything is opened.
func modelRows() []hostileRow {
	serve := func(spoil func(w *hostileWorld, dir string) error) func(w *hostileWorld) (int, string) {
		return func(w *hostileWorld) (int, string) {
			dir := filepath.Join(w.dir, "model")
			err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(w.model)), os.Remove(filepath.Join(dir, "config.json")))
			if err := errors.Join(err, spoil(w, dir)); err != nil {
				w.t.Error(err)
			}
			return w.command("serve", "--model", dir, "--listen", "127.0.0.1:0")
		}
	}
	config := func(dir string) string { return filepath.Join(dir, "config.json") }
	text := func(text string) func(*hostileWorld, string) error {
		return func(_ *hostileWorld, dir string) error { return os.WriteFile(config(dir), []byte(text), 0o600) }
	}
	return []hostileRow{
		{"model folder", "without config.json", serve(func(*hostileWorld, string) error { return nil })},
		{"model folder", "config.json is a pipe", serve(func(_ *hostileWorld, dir string) error { return syscall.Mkfifo(config(dir), 0o600) })},
		{"model folder", "config.json is a device", serve(func(_ *hostileWorld, dir string) error { return os.Symlink("/dev/zero", config(dir)) })},
		{"model folder", "config.json is a folder", serve(func(_ *hostileWorld, dir string) error { return os.Mkdir(config(dir), 0o755) })},
		{"model folder", "config.json is a circle of links", serve(func(_ *hostileWorld, dir string) error { return os.Symlink("config.json", config(dir)) })},
		{"model folder", "config.json is nested without end", serve(text(strings.Repeat(`{"a":`, nested)))},
		{"model folder", "a model of 10^18 layers", serve(text(`{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_act":"silu","num_hidden_layers":1000000000000000000,"hidden_size":64,"vocab_size":64,"num_attention_heads":4,"num_key_value_heads":4,"intermediate_size":64,"max_position_embeddings":64,"rms_norm_eps":1e-6,"rope_theta":10000}`))},
		{"model folder", "an index that names a file elsewhere", serve(func(w *hostileWorld, dir string) error {
			config, err := os.ReadFile(filepath.Join(w.model, "config.json"))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600), os.Remove(filepath.Join(dir, "model.safetensors")),
				os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(`{"weight_map":{"model.norm.weight":"../../../etc/passwd"}}`), 0o600))
		})},
		{"model folder", "tokenizer.json is a pipe", serve(func(_ *hostileWorld, dir string) error {
			path := filepath.Join(dir, "tokenizer.json")
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		})},
		{"model folder", "a model of negative width", serve(text(`{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_act":"silu","num_hidden_layers":1,"hidden_size":-64,"vocab_size":64}`))},
	}
}

// fileRows are files that are none, and archives that unfold.
func fileRows() []hostileRow {
	read := func(path string) func(*hostileWorld) (int, string) {
		return func(w *hostileWorld) (int, string) { return w.command("import", path, "--environment", "retail@1") }
	}
	return []hostileRow{
		{"import", "a file that is not there", read("/nowhere/x.json")},
		{"import", "a folder", read("/tmp")},
		{"import", "a device without end", read("/dev/zero")},
		{"import", "a pipe that nobody writes to", func(w *hostileWorld) (int, string) {
			path := filepath.Join(w.dir, "pipe.json")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				w.t.Error(err)
			}
			return read(path)(w)
		}},
		{"import", "an archive of 100 MB of zeros in 100 kB", func(w *hostileWorld) (int, string) {
			return w.command("import", w.write("bomb.eval", archive(w.t, "samples/1.json", 100<<20)), "--environment", "retail@1")
		}},
		{"import", "an archive with a path out of its folder", func(w *hostileWorld) (int, string) {
			return w.command("import", w.write("slip.eval", archive(w.t, "../../samples/1.json", 10)), "--environment", "retail@1")
		}},
		{"import", "half of an archive", func(w *hostileWorld) (int, string) {
			text := archive(w.t, "samples/1.json", 10)
			return w.command("import", w.write("half.eval", text[:len(text)/2]), "--environment", "retail@1")
		}},
	}
}

func archive(t *testing.T, name string, size int) string {
	t.Helper()
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	entry, err := z.Create(name)
	if err == nil {
		_, err = entry.Write(make([]byte, size))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Error(err)
	}
	return file.String()
}

// domainRows are environments that attack who runs them.
func domainRows() []hostileRow {
	python := func(class string) func(*hostileWorld) (int, string) {
		return func(w *hostileWorld) (int, string) {
			w.write("evil.py", class)
			return w.command("sandbox", "call", "evil", "look", "{}", "--environments", w.write("environments.yaml",
				"environments:\n  evil:\n    adapter: python-class\n    kind: bfcl\n    class: Evil\n    file: evil.py\n    config: {}\n    tools: {look: {effect: read, input: {type: object}}}\n"))
		}
	}
	starlark := func(state string) func(*hostileWorld) (int, string) {
		return func(w *hostileWorld) (int, string) {
			const dir = "data/environments/evil/trap/"
			w.write(dir+"domain.yaml", "name: trap\ntitle: Trap\nversions: {\"1\": first}\n")
			w.write(dir+"domain.star", "def look(db):\n    \"\"\"Look.\"\"\"\n    return 1\ntool(look, params={}, effect=\"read\")\n")
			w.write(dir+"state.star", state)
			w.write(dir+"tasks.star", "")
			return w.command("sandbox", "call", "evil:trap", "look")
		}
	}
	return []hostileRow{
		{"Python class", "it wants 100 GB that are shared", python("import mmap\nx = mmap.mmap(-1, 100 << 30)\nclass Evil:\n    def look(self): return 1\n")},
		{"Python class", "it leaves while it is read", python("import sys\nsys.exit(2)\n")},
		{"Python class", "its programs write into the protocol", python("import os\nos.system('echo 1')\nclass Evil:\n    def look(self): return 1\n")},
		{"Python class", "it reads the protocol", python("class Evil:\n    def look(self): return input()\n")},
		{"Python class", "no Python", python("class Evil(:\n")},
		{"Python class", "another class than was declared", python("class Good:\n    pass\n")},
		{"Python class", "it ends the interpreter", python("import os\nos._exit(0)\n")},
		{"Python class", "it wants 10 GB", python("x = bytearray(10 << 30)\nclass Evil:\n    def look(self): return 1\n")},
		{"Python class", "it writes into the protocol", python("print('{\"id\":1,\"ok\":{}}' * 3, flush=True)\nclass Other:\n    pass\n")},
		{"Starlark domain", "no Starlark", starlark("def state(\n")},
		{"Starlark domain", "it wants 16 GB", starlark("def state(rng, size=None):\n    return {\"n\": [0] * (1 << 31)}\n")},
		{"Starlark domain", "it loads a file", starlark("load(\"/etc/passwd\", \"x\")\ndef state(rng, size=None):\n    return {}\n")},
	}
}

// pathRows are names that lead elsewhere.
func pathRows() []hostileRow {
	get := func(path string) hostileRow {
		return hostileRow{"HTTP GET", "`" + path + "`", func(w *hostileWorld) (int, string) { return w.request(http.MethodGet, path, "") }}
	}
	environment := func(ref string) hostileRow {
		name := "environment `" + strings.ReplaceAll(ref, "\x00", "NUL") + "`"
		if len(ref) > 100 {
			name = "environment of 500 letters"
		}
		return hostileRow{"HTTP POST /gym/seed_session", name, func(w *hostileWorld) (int, string) {
			body, err := json.Marshal(map[string]string{"environment": ref})
			if err != nil {
				w.t.Error(err)
			}
			return w.request(http.MethodPost, "/gym/seed_session", string(body))
		}}
	}
	return []hostileRow{
		get("/v1/..%2f..%2fetc/passwd"), get("/v1/scores/..%2f..%2fx"), get("/v1/gate?run=%00&decided=x"), get("/v1/alarms?limit=-1"),
		get("/v1/alarms?limit=99999999999999999999"), get("/v1/alarms?after=%ff"), get("/v1/gates?limit=1e9"),
		environment("http://169.254.169.254/latest/meta-data"), environment("mcp:http://127.0.0.1:1/"), environment("../../../etc:passwd"),
		environment("..:.."), environment("retail@99"), environment(strings.Repeat("x", 500)), environment("retail\x00"),
		{"sandbox", "environment `../../etc/passwd`", func(w *hostileWorld) (int, string) { return w.command("sandbox", "tools", "../../etc/passwd") }},
		{"sandbox", "environment `..:x`", func(w *hostileWorld) (int, string) { return w.command("sandbox", "tools", "..:x") }},
		{"report", "a run's name with terminal code", func(w *hostileWorld) (int, string) { return w.command("report", "\x1b]0;x\a") }},
		{"gate", "a run that is SQL", func(w *hostileWorld) (int, string) {
			return w.command("gate", "--run", "'; DROP TABLE run; --", "--policy", w.write("gate.yaml", "version: 1\ndefaults: {fsr: {max: 0.05}}\n"))
		}},
	}
}
