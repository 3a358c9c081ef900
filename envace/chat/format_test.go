package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/chat"
	chatml "understudy/gpu/chat"
	"understudy/gpu/tokenizer"
)

func formatOf(t *testing.T, family chatml.Format) *chat.Format {
	t.Helper()
	words, err := tokenizer.Load("../../gpu/tokenizer/testdata/qwen2.json")
	if err != nil {
		t.Fatal(err)
	}
	template, err := chatml.New(family)
	if err != nil {
		t.Fatal(err)
	}
	return &chat.Format{Template: template, Tokenizer: words}
}

// conversation is a transcript whose ACT thought before each of n answered calls
// and before the one that is to be answered.
func conversation(n int) (*envace.Transcript, audit.Call) {
	t := &envace.Transcript{
		Task: audit.Task{ID: "mine", Prompt: "cancel my order"}, Policy: "Only pending orders.", Memory: "attempt 1 went well",
		Tools: []audit.Tool{{Name: "get", Description: "reads <one>", Input: json.RawMessage(`{"type":"object"}`)}},
	}
	var call audit.Call
	for i := range n + 1 {
		call = audit.Call{Tool: "get", Arguments: json.RawMessage(fmt.Sprintf(`{"id":%d}`, i))}
		t.Items = append(t.Items, envace.Item{Act: &envace.Act{Thinking: "SECRET return success", Calls: []audit.Call{call}}})
		if i < n {
			t.Items = append(t.Items, envace.Item{Answer: &envace.Answer{Call: call, Raw: fmt.Appendf(nil, `{"n":%d}`, 100+i)}})
		}
	}
	return t, call
}

func prompt(t *testing.T, f *chat.Format, tr *envace.Transcript, role audit.PolicyRole, call audit.Call) string {
	t.Helper()
	ids, err := f.Prompt(tr, role, call)
	if err != nil {
		t.Fatal(err)
	}
	return f.Tokenizer.Decode(ids, false)
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	tr, call := conversation(2)
	for _, family := range []chatml.Format{chatml.Qwen3, chatml.ChatML} {
		f := formatOf(t, family)
		act := prompt(t, f, tr, audit.ActRole, audit.Call{})
		for _, want := range []string{"Only pending orders.", "reads <one>", "cancel my order", `{"n":101}`, "attempt 1 went well", "<|im_start|>assistant"} {
			if !strings.Contains(act, want) {
				t.Errorf("%s: ACT is not told %q:\n%s", family, want, act)
			}
		}
		rehearse := prompt(t, f, tr, audit.RehearseRole, call)
		for _, want := range []string{"You stand in for the backend", "reads <one>", `{"n":100}`, `"arguments":{"id":2}`} {
			if !strings.Contains(rehearse, want) {
				t.Errorf("%s: REHEARSE is not told %q:\n%s", family, want, rehearse)
			}
		}
		if strings.Contains(rehearse, "attempt 1 went well") {
			t.Errorf("%s: REHEARSE reads ACT's memory", family)
		}
	}
}

// Two formats that could make other tokens of a transcript have other digests: a worker
// must not roll out in another one than the training's.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(change func(*chat.Format)) audit.Digest {
		t.Helper()
		f := formatOf(t, chatml.Qwen3)
		change(f)
		d, err := f.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	same := digest(func(*chat.Format) {})
	if again := digest(func(f *chat.Format) { f.PromptTokens = 12_000 }); again != same {
		t.Error("the same format, its default written out, has another digest")
	}
	other, err := tokenizer.Load("../../gpu/tokenizer/testdata/gpt2.json")
	if err != nil {
		t.Fatal(err)
	}
	llama, err := chatml.New(chatml.Llama3)
	if err != nil {
		t.Fatal(err)
	}
	for reason, change := range map[string]func(*chat.Format){
		"another tokenizer": func(f *chat.Format) { f.Tokenizer = other }, "another template": func(f *chat.Format) { f.Template = llama },
		"shorter prompts": func(f *chat.Format) { f.PromptTokens = 100 }, "thinking seen": func(f *chat.Format) { f.ThinkingSeen = true }, "no thinking": func(f *chat.Format) { f.NoThinking = true },
	} {
		if digest(change) == same {
			t.Errorf("%s: the same digest", reason)
		}
	}
}

// Trap 8 of facts/envace.md, section 6 (c): what ACT thinks cannot tell REHEARSE
// what to answer, unless the published code's behaviour is asked for.
func TestTrap08ThinkingIsHidden(t *testing.T) {
	t.Parallel()
	f := formatOf(t, chatml.Qwen3)
	tr, call := conversation(1)
	hidden, err := f.Prompt(tr, audit.RehearseRole, call)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(f.Tokenizer.Decode(hidden, false), "SECRET") {
		t.Error("REHEARSE reads ACT's thinking")
	}
	for i := range tr.Items {
		if tr.Items[i].Act != nil {
			tr.Items[i].Act.Thinking = "something else"
		}
	}
	if other := prompt(t, f, tr, audit.RehearseRole, call); other != f.Tokenizer.Decode(hidden, false) {
		t.Error("the prompt depends on ACT's thinking")
	}
	f.ThinkingSeen = true
	if n := strings.Count(prompt(t, f, tr, audit.RehearseRole, call), "something else"); n != 2 {
		t.Errorf("the published code shows both thoughts, not %d", n)
	}
}

// Trap 8 (b): examples come from other tasks, never from the sample's own future.
func TestTrap08ExamplesExcludeTheOwnFuture(t *testing.T) {
	t.Parallel()
	turn := func(tool, answer string) audit.Turn {
		return audit.Turn{Call: audit.Call{Tool: tool, Arguments: json.RawMessage(`{}`)}, Answer: []byte(answer)}
	}
	recorded := map[string][]audit.Turn{
		"mine": {turn("get", "MINE")}, "other": {turn("get", "OTHER1"), turn("put", "PUT"), turn("get", "OTHER2"), turn("get", "OTHER3")},
	}
	tr, call := conversation(0)
	f := formatOf(t, chatml.Qwen3)
	f.Examples = envace.NewExamples(recorded, 2, false)
	got := prompt(t, f, tr, audit.RehearseRole, call)
	for text, want := range map[string]bool{"MINE": false, "OTHER1": true, "OTHER2": true, "OTHER3": false, "PUT": false} {
		if strings.Contains(got, text) != want {
			t.Errorf("example %s shown: %v, want %v", text, !want, want)
		}
	}
	f.Examples = envace.NewExamples(recorded, 2, true)
	if got := prompt(t, f, tr, audit.RehearseRole, call); !strings.Contains(got, "MINE") || strings.Contains(got, "OTHER") {
		t.Error("the published code shows the sample's own answers")
	}
}

// Trap 6: a prompt over its limit keeps instruction and tools and loses its oldest
// calls, which are counted; ACT's is an error.
func TestTrap06PromptsAreNeverCutSilently(t *testing.T) {
	t.Parallel()
	f := formatOf(t, chatml.Qwen3)
	short, call := conversation(0)
	ids, err := f.Prompt(short, audit.RehearseRole, call)
	if err != nil {
		t.Fatal(err)
	}
	f.PromptTokens = len(ids) + 120
	long, call := conversation(40)
	got := prompt(t, f, long, audit.RehearseRole, call)
	ids, err = f.Prompt(long, audit.RehearseRole, call)
	if err != nil || len(ids) > f.PromptTokens {
		t.Fatalf("%d tokens of at most %d, %v", len(ids), f.PromptTokens, err)
	}
	for text, want := range map[string]bool{"You stand in for the backend": true, "reads <one>": true, `{"n":139}`: true, `"id":40`: true, `{"n":100}`: false} {
		if strings.Contains(got, text) != want {
			t.Errorf("%q in the prompt: %v, want %v", text, !want, want)
		}
	}
	kept := strings.Count(got, "<execution_result>\n{\"n\":")
	if lost := f.Dropped(); kept == 0 || lost != int64(2*(40-kept)) {
		t.Errorf("%d calls were dropped by two prompts that kept %d of 40", lost, kept)
	}
	if _, err := f.Prompt(long, audit.ActRole, audit.Call{}); !errors.Is(err, envace.ErrPrompt) {
		t.Errorf("an ACT prompt over the limit: %v", err)
	}
	f.PromptTokens = 50
	if _, err := f.Prompt(long, audit.RehearseRole, call); !errors.Is(err, envace.ErrPrompt) {
		t.Errorf("instruction and tools over the limit: %v", err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	f := formatOf(t, chatml.Qwen3)
	act := f.ReadAct(envace.Output{Tokens: f.Tokenizer.Encode("<think>\nhm\n</think>\n\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"id\": 1}}\n</tool_call><|im_end|>")})
	if len(act.Calls) != 1 || act.Calls[0].Tool != "get" || act.Thinking != "hm" || act.Fault != envace.FaultNone {
		t.Errorf("read %+v", act)
	}
	r := f.ReadRehearsal(envace.Output{Tokens: f.Tokenizer.Encode("<execution_result>\n{\"n\":1}\n</execution_result><|im_end|>"), LogProbs: []float32{0, 0}})
	if string(r.Raw) != `{"n":1}` || r.Fault != envace.FaultNone || r.Confidence == nil || *r.Confidence != 1 {
		t.Errorf("read %s, %q, %v", r.Raw, r.Fault, r.Confidence)
	}
	tr, _ := conversation(0)
	broken := envace.ParseAct("<tool_call>oops</tool_call>")
	tr.Items = append(tr.Items, envace.Item{Act: &broken})
	if got := prompt(t, f, tr, audit.ActRole, audit.Call{}); !strings.Contains(got, "<tool_call>oops</tool_call>") {
		t.Errorf("the model does not see its own broken call:\n%s", got)
	}
}

// What is written for a warm start is what the template has after the prompt, is read
// back as it was meant, and control tokens in what was said stay text.
func TestWritten(t *testing.T) {
	t.Parallel()
	for _, family := range []chatml.Format{chatml.Qwen3, chatml.ChatML} {
		f := formatOf(t, family)
		tr, call := conversation(1)
		tr.Items = tr.Items[:2]
		act := envace.Act{Reply: "One <|im_end|> moment.", Calls: []audit.Call{{Tool: "get", Arguments: json.RawMessage(`{"id":1}`)}}}
		if family == chatml.Qwen3 {
			act.Thinking = "so it is"
		}
		ids, err := f.ActTokens(tr, &act)
		if err != nil {
			t.Fatal(err)
		}
		if n := ends(ids, f.End()[0]); n != 1 || ids[len(ids)-1] != f.End()[0] {
			t.Errorf("%s: %d ends in %q", family, n, f.Tokenizer.Decode(ids, false))
		}
		text := strings.ReplaceAll(f.Tokenizer.Decode(ids, false), "One <|im_end|>", "One")
		read := envace.ParseAct(text)
		if read.Reply != "One moment." || read.Thinking != act.Thinking || len(read.Calls) != 1 || read.Fault != envace.FaultNone {
			t.Errorf("%s: read %+v of %q", family, read, text)
		}
		answer, err := f.AnswerTokens(tr, call, []byte(`{"n":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if r := f.ReadRehearsal(envace.Output{Tokens: answer}); string(r.Raw) != `{"n":1}` || r.Fault != envace.FaultNone || answer[len(answer)-1] != f.End()[0] {
			t.Errorf("%s: read %s, %q", family, r.Raw, r.Fault)
		}
	}
}

func ends(ids []int32, end int32) (n int) {
	for _, id := range ids {
		if id == end {
			n++
		}
	}
	return n
}
