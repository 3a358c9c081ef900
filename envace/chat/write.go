package chat

import (
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace"
	"understudy/gpu/chat"
	"understudy/gpu/tokenizer"
)

// ActTokens are the tokens of an ACT output that some other agent made after the
// transcript, as this model's template has it, with the token that ends the turn: what
// a warm start imitates.
func (f *Format) ActTokens(t *envace.Transcript, act *envace.Act) ([]int32, error) {
	before, err := f.act(t)
	if err != nil {
		return nil, err
	}
	said, err := f.message(envace.Item{Act: act})
	if err != nil {
		return nil, err
	}
	return f.continuation(before, said)
}

// AnswerTokens are the tokens of a REHEARSE output that gives this answer to the call,
// with the token that ends the turn.
func (f *Format) AnswerTokens(t *envace.Transcript, call audit.Call, raw []byte) ([]int32, error) {
	before, err := f.rehearsed(t, call, t.History(), thoughtsOf(t))
	if err != nil {
		return nil, err
	}
	return f.continuation(before, chat.Message{Role: chat.Assistant, Content: envace.RehearsalText(raw, nil)})
}

// continuation is what the template writes of a message after the prompt for it.
func (f *Format) continuation(before chat.Conversation, said chat.Message) ([]int32, error) {
	before.Generate, before.NoThinking = true, f.NoThinking
	prompt, err := f.Template.Render(before)
	if err != nil {
		return nil, err
	}
	after := before
	after.Generate = false
	after.Messages = append(slices.Clip(after.Messages), said)
	whole, err := f.Template.Render(after)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(whole.String(), prompt.String()) {
		return nil, fmt.Errorf("the %s template writes another beginning once the message is there", f.Template.Format())
	}
	parts := cutFront(whole, len(prompt.String()))
	stop := f.Template.Stop()
	if last := &parts[len(parts)-1]; !last.Plain { // the template's white space after the end is not the model's
		if end := strings.LastIndex(last.Text, stop); end >= 0 {
			last.Text = last.Text[:end+len(stop)]
		}
	}
	return f.Tokenizer.AppendParts(nil, parts...), nil
}

// cutFront drops the first n bytes of a prompt.
func cutFront(p chat.Prompt, n int) []tokenizer.Part {
	var parts []tokenizer.Part
	for _, part := range p {
		drop := min(n, len(part.Text))
		n -= drop
		if part.Text = part.Text[drop:]; part.Text != "" {
			parts = append(parts, tokenizer.Part{Text: part.Text, Plain: part.Plain})
		}
	}
	return parts
}

// End are the tokens that end an output.
func (f *Format) End() []int32 {
	if id, ok := f.Tokenizer.ID(f.Template.Stop()); ok {
		return []int32{id}
	}
	return nil
}

// First is how many tokens ACT reads before its next output.
func (f *Format) First(t *envace.Transcript) (int, error) {
	conversation, err := f.act(t)
	if err != nil {
		return 0, err
	}
	ids, err := f.tokens(conversation)
	return len(ids), err
}
