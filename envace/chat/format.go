// Package chat is how a chat model plays both roles: its own template writes the
// prompts (gpu/chat), its tokenizer reads them, and the contracts of envace read
// what it answers. ACT gets the tools where the template has them, REHEARSE the
// prompt of envace.RehearsePrompt.
//
// What a role is told first, instruction, rules and tools, is never cut. A REHEARSE
// prompt over its limit loses its oldest calls, which are counted; one of ACT is
// envace.ErrPrompt.
package chat

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"

	"understudy/audit"
	"understudy/envace"
	"understudy/gpu/chat"
	"understudy/gpu/tokenizer"
)

// Format writes and reads for one model. It is safe for concurrent use.
type Format struct {
	Template     *chat.Template
	Tokenizer    *tokenizer.Tokenizer
	PromptTokens int  // at most; 0 = the paper's 12,000
	NoThinking   bool // the model answers at once
	// ThinkingSeen shows ACT's thinking to REHEARSE, as the published code does.
	ThinkingSeen bool
	Examples     *envace.Examples // for REHEARSE; nil = none

	dropped atomic.Int64
}

var _ envace.Format = (*Format)(nil)

// defaultPromptTokens is the paper's (facts/paper.md, setting).
const defaultPromptTokens = 12_000

// Dropped is how many earlier calls REHEARSE prompts have lost so far.
func (f *Format) Dropped() int64 { return f.dropped.Load() }

// Prompt implements envace.Format.
func (f *Format) Prompt(t *envace.Transcript, role audit.PolicyRole, call audit.Call) ([]int32, error) {
	if role == audit.RehearseRole {
		return f.rehearse(t, call)
	}
	conversation, err := f.act(t)
	if err != nil {
		return nil, err
	}
	ids, err := f.tokens(conversation)
	if err != nil {
		return nil, err
	}
	if most := f.most(); len(ids) > most {
		return nil, fmt.Errorf("ACT of task %s: %d tokens, at most %d: %w", t.Task.ID, len(ids), most, envace.ErrPrompt)
	}
	return ids, nil
}

func (f *Format) most() int { return cmp.Or(f.PromptTokens, defaultPromptTokens) }

// tokens are a conversation's; control tokens in what was said stay plain text.
func (f *Format) tokens(c chat.Conversation) ([]int32, error) {
	c.Generate, c.NoThinking = true, f.NoThinking
	prompt, err := f.Template.Render(c)
	if err != nil {
		return nil, err
	}
	parts := make([]tokenizer.Part, len(prompt))
	for i, p := range prompt {
		parts[i] = tokenizer.Part{Text: p.Text, Plain: p.Plain}
	}
	return f.Tokenizer.AppendParts(nil, parts...), nil
}

// Digest implements envace.Format. Examples are not part of it: they follow from the data.
func (f *Format) Digest() (audit.Digest, error) {
	words, err := f.Tokenizer.MarshalJSON()
	if err != nil {
		return audit.Digest{}, err
	}
	said := []chat.Message{{Role: chat.User, Content: "x"}, {Role: chat.Assistant, Content: "y"}}
	written, err := f.Template.Render(chat.Conversation{Messages: said})
	if err != nil {
		return audit.Digest{}, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %q %d %v %v %s %s\n", f.Template.Format(), written.String(), f.most(), f.NoThinking, f.ThinkingSeen,
		envace.ActPromptDigest(), envace.RehearsePromptDigest())
	h.Write(words)
	return audit.Digest(h.Sum(nil)), nil
}

// act is the conversation that ACT goes on with.
func (f *Format) act(t *envace.Transcript) (chat.Conversation, error) {
	system := envace.ActInstruction(t)
	var c chat.Conversation
	if f.Template.HasTools() {
		var err error
		if c.Tools, err = envace.Definitions(t.Tools); err != nil {
			return c, err
		}
	} else {
		tools, err := envace.ToolList(t.Tools)
		if err != nil {
			return c, err
		}
		system += "\nThe tools:\n" + tools
	}
	c.Messages = []chat.Message{{Role: chat.System, Content: system}, {Role: chat.User, Content: t.Task.Prompt}}
	for _, item := range t.Items {
		m, err := f.message(item)
		if err != nil {
			return c, err
		}
		c.Messages = append(c.Messages, m)
	}
	return c, nil
}

// message is one item as the template has it; templates without tools get calls and
// answers as text.
func (f *Format) message(item envace.Item) (chat.Message, error) {
	switch {
	case item.Answer != nil && f.Template.HasTools():
		return chat.Message{Role: chat.Tool, Content: string(item.Answer.Raw)}, nil
	case item.Answer != nil:
		return chat.Message{Role: chat.User, Content: "<tool_response>\n" + string(item.Answer.Raw) + "\n</tool_response>"}, nil
	case item.Act == nil:
		return chat.Message{Role: chat.User, Content: item.User}, nil
	}
	m := chat.Message{Role: chat.Assistant, Content: item.Act.Said()}
	if f.Template.HasTools() {
		m.Thinking = item.Act.Thinking
	}
	for _, call := range item.Act.Calls {
		if f.Template.HasTools() {
			m.Calls = append(m.Calls, chat.Call{Name: call.Tool, Arguments: call.Arguments})
			continue
		}
		text, err := envace.CallText(call)
		if err != nil {
			return m, err
		}
		m.Content = strings.TrimLeft(m.Content+"\n"+text, "\n")
	}
	return m, nil
}

// rehearse is the longest prompt that fits, without the oldest calls of those that
// do not.
func (f *Format) rehearse(t *envace.Transcript, call audit.Call) ([]int32, error) {
	turns, thoughts := t.History(), thoughtsOf(t)
	var faults error
	try := func(dropped int) []int32 {
		ids, err := f.rehearsal(t, call, turns[dropped:], thoughts[dropped:])
		if err != nil {
			faults = err
		}
		return ids
	}
	most := f.most()
	dropped := sort.Search(len(turns), func(n int) bool { return len(try(n)) <= most })
	ids := try(dropped)
	switch {
	case faults != nil:
		return nil, faults
	case len(ids) > most:
		return nil, fmt.Errorf("REHEARSE of %s: %d tokens without any history, at most %d: %w", call.Tool, len(ids), most, envace.ErrPrompt)
	}
	f.dropped.Add(int64(dropped))
	return ids, nil
}

func (f *Format) rehearsal(t *envace.Transcript, call audit.Call, turns []audit.Turn, thoughts []string) ([]int32, error) {
	c, err := f.rehearsed(t, call, turns, thoughts)
	if err != nil {
		return nil, err
	}
	return f.tokens(c)
}

// rehearsed is the conversation that REHEARSE goes on with.
func (f *Format) rehearsed(t *envace.Transcript, call audit.Call, turns []audit.Turn, thoughts []string) (chat.Conversation, error) {
	var c chat.Conversation
	messages, err := envace.RehearsePrompt(audit.RehearseRequest{
		Tools: t.Tools, History: turns, Call: call,
	})
	if err != nil {
		return c, err
	}
	if messages[0].Content, err = f.withExamples(messages[0].Content, t.Task.ID, call.Tool); err != nil {
		return c, err
	}
	c.Messages = make([]chat.Message, len(messages))
	for i, m := range messages {
		c.Messages[i] = chat.Message{Role: m.Role, Content: m.Content}
		if thought := i / 2; f.ThinkingSeen && m.Role == chat.User && thoughts[thought] != "" {
			c.Messages[i].Content = "The caller thought:\n" + thoughts[thought] + "\n\n" + m.Content
		}
	}
	return c, nil
}

func (f *Format) withExamples(system, task, tool string) (string, error) {
	turns := f.Examples.Of(task, tool)
	if len(turns) == 0 {
		return system, nil
	}
	var b strings.Builder
	b.WriteString(system + "\nHow the backend answered such calls elsewhere, on other data:\n")
	for _, turn := range turns {
		text, err := envace.CallText(turn.Call)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s\n%s\n", text, turn.Answer)
	}
	return b.String(), nil
}

// thoughtsOf are what ACT thought before each answered call, and at the end before
// the call that is to be answered.
func thoughtsOf(t *envace.Transcript) []string {
	var thoughts []string
	last := ""
	for _, item := range t.Items {
		switch {
		case item.Act != nil:
			last = item.Act.Thinking
		case item.Answer != nil:
			thoughts = append(thoughts, last)
		}
	}
	return append(thoughts, last)
}

// text is an output as its model wrote it, up to the end of the turn.
func (f *Format) text(o envace.Output) string {
	text := o.Text
	if o.Tokens != nil {
		text = f.Tokenizer.Decode(o.Tokens, false)
	}
	text, _, _ = strings.Cut(text, f.Template.Stop())
	return text
}

// ReadAct implements envace.Format.
func (f *Format) ReadAct(o envace.Output) envace.Act {
	act := envace.ParseAct(f.text(o))
	act.Output = o
	return act
}

// ReadRehearsal implements envace.Format. An answer that states no confidence has
// the probability of its tokens, the geometric mean.
func (f *Format) ReadRehearsal(o envace.Output) envace.Rehearsed {
	r := envace.Rehearsed{Output: o}
	r.Rehearsal, r.Fault = envace.ParseRehearsal(f.text(o))
	r.Truncated = o.Truncated
	r.Tokens, r.LogProbs = o.Tokens, o.LogProbs
	if r.Confidence == nil && len(o.LogProbs) > 0 {
		r.Confidence = new(envace.MeanProbability(o.LogProbs))
	}
	return r
}
