package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"understudy/audit"
	"understudy/envace"
)

// Capabilities is what one model server can do, as seen by asking it.
type Capabilities struct {
	URL           string `json:"url"`
	Model         string `json:"model"`
	Chat          bool   `json:"chat"`
	Completions   bool   `json:"completions"`
	Seed          bool   `json:"seed"`          // accepted
	Deterministic bool   `json:"deterministic"` // the same seed gave the same text, twice, on an idle server
	N             bool   `json:"n"`             // several answers in one request
	LogProbs      bool   `json:"log_probs"`     // of sampled tokens, all finite
	TokenIDs      bool   `json:"token_ids"`     // of sampled tokens
	JSONSchema    bool   `json:"json_schema"`   // response_format json_schema is accepted and kept
	Tools         bool   `json:"tools"`         // a tools list is accepted
}

// Rows is the table that people read: what was asked, the answer, and what its
// absence costs.
func (c Capabilities) Rows() [][3]string {
	row := func(name string, has bool, cost string) [3]string {
		if has {
			return [3]string{name, "yes", ""}
		}
		return [3]string{name, "no", cost}
	}
	return [][3]string{
		row("chat", c.Chat, "cannot rehearse through this server"),
		row("completions", c.Completions, "raw prompts are not available"),
		row("seed", c.Seed, "rehearsals cannot be repeated"),
		row("same seed, same text", c.Deterministic, "k rehearsals show the server's own noise, too"),
		row("n answers a request", c.N, "k rehearsals cost k requests"),
		row("log-probabilities", c.LogProbs, "confidence only where the policy states it"),
		row("token ids", c.TokenIDs, "calibration by text only"),
		row("JSON Schema output", c.JSONSchema, "malformed rehearsals are possible"),
		row("tools", c.Tools, "ACT must write its calls as text"),
	}
}

// Probe asks the server once for each feature and remembers the answers. It
// fails with an *audit.Error when the server cannot be reached at all or has no
// such model. Of several callers one asks, the others wait for it; while the server is
// left alone, they are told so.
func (p *Policy) Probe(ctx context.Context) (Capabilities, error) {
	if caps := p.capabilities.Load(); caps != nil {
		return *caps, nil
	}
	select {
	case p.probing <- struct{}{}:
		defer func() { <-p.probing }()
	case <-ctx.Done():
		return Capabilities{}, context.Cause(ctx)
	}
	if caps := p.capabilities.Load(); caps != nil {
		return *caps, nil
	}
	if why := p.resting(); why != "" { // others have tried meanwhile
		return Capabilities{}, p.client.failed(errors.New(why))
	}
	return p.probe(ctx)
}

func (p *Policy) probe(ctx context.Context) (Capabilities, error) {
	model, err := p.client.model(ctx)
	if err != nil {
		return Capabilities{}, err
	}
	caps := Capabilities{URL: p.client.base, Model: model}
	if err := p.probeChat(ctx, &caps); err != nil {
		return caps, err
	}
	p.probeOptions(ctx, &caps)
	if ctx.Err() != nil {
		return caps, context.Cause(ctx)
	}
	p.capabilities.Store(&caps)
	return caps, nil
}

// model is the configured model, or the only one that the server lists.
func (c *client) model(ctx context.Context) (string, error) {
	if c.config.Model != "" {
		return c.config.Model, nil
	}
	if only := c.only.Load(); only != nil {
		return *only, nil
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := c.get(ctx, "/models", &list); err != nil {
		return "", err
	}
	names := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	if len(names) != 1 {
		return "", &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("%s serves %d models", c.base, len(names)),
			Hint: "choose one with --model: " + strings.Join(names, ", "),
		}
	}
	c.only.Store(&names[0])
	return names[0], nil
}

// hello is a request that any chat server answers with a few tokens.
func (p *Policy) hello(model string, options map[string]any) map[string]any {
	body := map[string]any{
		"model": model, "max_tokens": 8, "temperature": 0,
		"messages": []envace.Message{{Role: "user", Content: "Answer with the word yes."}},
	}
	maps.Copy(body, options)
	return body
}

func (p *Policy) probeChat(ctx context.Context, caps *Capabilities) error {
	var reply chatReply
	if err := p.client.post(ctx, "/chat/completions", p.hello(caps.Model, nil), &reply); err != nil {
		return err
	}
	caps.Chat = len(reply.Choices) > 0
	return nil
}

// probeOptions tries each option alone: a server that refuses one with an error
// lacks it, a server that ignores it is found out by the reply.
func (p *Policy) probeOptions(ctx context.Context, caps *Capabilities) {
	ask := func(options map[string]any) (chatReply, bool) {
		var reply chatReply
		err := p.client.post(ctx, "/chat/completions", p.hello(caps.Model, options), &reply)
		return reply, err == nil && len(reply.Choices) > 0
	}
	first, ok := ask(map[string]any{"seed": 7, "temperature": 1})
	second, again := ask(map[string]any{"seed": 7, "temperature": 1})
	caps.Seed = ok
	caps.Deterministic = ok && again && first.text() == second.text()
	if reply, ok := ask(map[string]any{"n": 2, "temperature": 1}); ok {
		caps.N = len(reply.Choices) == 2
	}
	if reply, ok := ask(map[string]any{"logprobs": true}); ok {
		_, caps.LogProbs = reply.Choices[0].logProbs()
	}
	if reply, ok := ask(map[string]any{"return_token_ids": true}); ok {
		caps.TokenIDs = len(reply.Choices[0].TokenIDs) > 0
	}
	if reply, ok := ask(map[string]any{"response_format": yesSchema(), "max_tokens": 32}); ok {
		caps.JSONSchema = strings.HasPrefix(strings.TrimSpace(reply.text()), `{`)
	}
	_, caps.Tools = ask(map[string]any{"tools": []any{map[string]any{
		"type":     "function",
		"function": map[string]any{"name": "noop", "description": "does nothing", "parameters": map[string]any{"type": "object", "properties": map[string]any{}}},
	}}})
	var text struct {
		Choices []struct {
			Text *string `json:"text"`
		} `json:"choices"`
	}
	err := p.client.post(ctx, "/completions", map[string]any{"model": caps.Model, "prompt": "yes", "max_tokens": 1}, &text)
	caps.Completions = err == nil && len(text.Choices) > 0 && text.Choices[0].Text != nil
}

func (r chatReply) text() string {
	if len(r.Choices) == 0 || r.Choices[0].Message.Content == nil {
		return ""
	}
	return *r.Choices[0].Message.Content
}

func yesSchema() map[string]any {
	return map[string]any{"type": "json_schema", "json_schema": map[string]any{
		"name": "answer", "strict": true,
		"schema": map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"yes"},
			"properties": map[string]any{"yes": map[string]any{"type": "boolean"}},
		},
	}}
}
