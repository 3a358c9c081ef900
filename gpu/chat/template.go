package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"understudy/gpu/regular"
)

// Format is a family of templates.
type Format string

// The formats that are known.
const (
	ChatML  Format = "chatml"  // <|im_start|>role … <|im_end|>, nothing else
	SmolLM2 Format = "smollm2" // ChatML with a system message of its own when there is none
	Qwen3   Format = "qwen3"   // ChatML with tools and thinking
	Llama3  Format = "llama3"  // <|start_header_id|>role<|end_header_id|> … <|eot_id|>
)

// ErrUnknown is returned, wrapped, for a template that is not recognised.
var ErrUnknown = errors.New("chat template is not known")

// Template renders one format.
type Template struct {
	format Format
	begin  string // bos_token; only Llama 3 writes it
	always bool   // the assistant's turn is begun whether asked for or not
}

// New is a format's template, whatever the model's folder says.
func New(format Format) (*Template, error) {
	switch format {
	case ChatML, SmolLM2, Qwen3:
		return &Template{format: format}, nil
	case Llama3:
		return &Template{format: format, begin: "<|begin_of_text|>"}, nil
	}
	return nil, fmt.Errorf("chat format %q: %w (there are %s, %s, %s and %s)", format, ErrUnknown, ChatML, SmolLM2, Qwen3, Llama3)
}

// Format is the template's family.
func (t *Template) Format() Format { return t.format }

// HasTools reports whether the format has tools, calls and thinking.
func (t *Template) HasTools() bool { return t.format == Qwen3 }

// Stop is the control token that ends a turn.
func (t *Template) Stop() string {
	if t.format == Llama3 {
		return "<|eot_id|>"
	}
	return "<|im_end|>"
}

// Load recognises the template of a model's folder: chat_template.jinja, or
// chat_template in tokenizer_config.json. One that is not known is ErrUnknown.
func Load(dir string) (*Template, error) {
	source, begin, err := read(dir)
	if err != nil {
		return nil, fmt.Errorf("read chat template: %w", err)
	}
	t, err := Recognize(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if t.format == Llama3 && begin != "" {
		t.begin = begin
	}
	return t, nil
}

// read finds a folder's template and its bos_token.
func read(dir string) (source, begin string, err error) {
	var config struct {
		Template json.RawMessage `json:"chat_template"`
		BOS      json.RawMessage `json:"bos_token"`
	}
	const most = 64 << 20 // bytes, more than any such file has
	path := filepath.Join(dir, "tokenizer_config.json")
	data, err := regular.Read(path, most)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", err
	}
	if err == nil {
		if err := json.Unmarshal(data, &config); err != nil {
			return "", "", fmt.Errorf("%s: %w", path, err)
		}
	}
	begin = tokenText(config.BOS)
	file, err := regular.Read(filepath.Join(dir, "chat_template.jinja"), most)
	switch {
	case err == nil:
		return string(file), begin, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", "", err
	}
	if json.Unmarshal(config.Template, &source) == nil && source != "" {
		return source, begin, nil
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if json.Unmarshal(config.Template, &named) == nil {
		for _, n := range named {
			if n.Name == "default" {
				return n.Template, begin, nil
			}
		}
	}
	return "", "", fmt.Errorf("%s holds neither chat_template.jinja nor a chat_template in tokenizer_config.json; name a format", dir)
}

// tokenText is a token in either of its notations: its text, or an object with it.
func tokenText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var token struct {
		Content string `json:"content"`
	}
	_ = json.Unmarshal(raw, &token) // null: no token
	return token.Content
}

// Recognize finds the format of a template's source. Short templates are known by their
// digest. Qwen3's, of which there are many versions that render the same, is known by
// the statements that make it up and the absence of those that later families add.
func Recognize(source string) (*Template, error) {
	source = strings.TrimSpace(strings.ReplaceAll(source, "\r\n", "\n"))
	// Newlines in literals are written either way.
	sum := sha256.Sum256([]byte(strings.ReplaceAll(source, `\n`, "\n")))
	digest := hex.EncodeToString(sum[:])
	switch digest[:16] {
	case "153280e3ff55d19d":
		return New(ChatML)
	case "872be49dbb638044":
		return New(SmolLM2)
	case "ba03a121d097859c":
		return New(Llama3)
	case "b48c47f644389271":
		return &Template{format: Llama3, begin: "<|begin_of_text|>", always: true}, nil
	}
	if isQwen3(source) {
		return New(Qwen3)
	}
	return nil, fmt.Errorf("%w (SHA-256 %s); name one of the formats %s, %s, %s, %s if it renders the same",
		ErrUnknown, digest[:16], ChatML, SmolLM2, Qwen3, Llama3)
}

func isQwen3(source string) bool {
	for _, statement := range []string{
		`"# Tools\n\nYou may call one or more functions to assist with the user query.`,
		`ns.multi_step_tool and message.role == "user"`,
		`message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')`,
		`.split('</think>')[-1].lstrip('\n')`,
		`loop.index0 > ns.last_query_index`,
		`'\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n'`,
		`'<tool_call>\n{"name": "'`,
		`'\n<tool_response>\n'`,
		`enable_thinking is defined and enable_thinking is false`,
	} {
		if !strings.Contains(source, statement) {
			return false
		}
	}
	for _, later := range []string{"render_content", "merged_system", "last_assistant_index", "preserve_thinking", "<function="} {
		if strings.Contains(source, later) {
			return false
		}
	}
	return true
}
