package chat

import (
	"encoding/json"
	"strings"
)

// The roles of messages.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	Tool      = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string
	Content string
	// Thinking is what an assistant thought before it answered. Formats that know of
	// thinking show it in the last turn only; when it is empty, they look for it in Content,
	// between <think> and </think>.
	Thinking string
	Calls    []Call // of an assistant
}

// Call is a call of a tool.
type Call struct {
	Name string
	// Arguments is JSON, written anew as Python writes it. A JSON string, and what is no JSON,
	// is put into the prompt as it is: the record of a broken call stays broken.
	Arguments json.RawMessage
}

// Conversation is what a model is to go on with.
type Conversation struct {
	Messages []Message
	Tools    []json.RawMessage // definitions as OpenAI's API has them, order kept
	Generate bool              // end with the beginning of the assistant's turn
	// NoThinking begins that turn with an empty thought, so that the model answers at once
	// (enable_thinking=false). Formats without thinking ignore it.
	NoThinking bool
}

// Part is a piece of a prompt.
type Part struct {
	Text string
	// Plain text was said by somebody, or comes from a tool's definition: control tokens in it
	// are no control tokens.
	Plain bool
}

// Prompt is a rendered conversation.
type Prompt []Part

// String is the whole text: what Jinja would have written.
func (p Prompt) String() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteString(part.Text)
	}
	return b.String()
}

// control adds text of the template, plain text that somebody said.
func (p *Prompt) control(text string) { p.add(Part{Text: text}) }
func (p *Prompt) plain(text string)   { p.add(Part{Text: text, Plain: true}) }

func (p *Prompt) add(part Part) {
	if part.Text == "" {
		return
	}
	if last := len(*p) - 1; last >= 0 && (*p)[last].Plain == part.Plain {
		(*p)[last].Text += part.Text
		return
	}
	*p = append(*p, part)
}
