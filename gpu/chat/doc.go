// Package chat writes conversations as the text that a chat model was trained on, and
// reads a model's answer back: thinking, text, tool calls.
//
// Models bring their format along as a Jinja template. There is no Jinja here: the
// templates of a few families are recognised ([Load]) and rendered by hand, with
// the same output, tested against Jinja's. An unknown one is refused by name, never
// guessed; [New] chooses a format in spite of it.
//
//	messages, tools ─► Template.Render ─► Prompt ─► tokens ─► model ─► text ─► Template.Parse ─► Reply
//
// A [Prompt] says of each part whether the template wrote it or somebody said it, so
// that the tokenizer can take control tokens in what was said as plain text.
// The package knows nothing of tokens, and no roles of an audit.
package chat
