package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"understudy/audit"
	"understudy/envace"
)

// Completer asks an OpenAI-compatible server for JSON that fits a schema, and for
// embeddings. It plays no role of a policy: judges and generators use it. It is
// safe for concurrent use.
type Completer struct {
	config Config
	client *client
}

// NewCompleter checks the configuration; it does not talk to the server yet.
func NewCompleter(config Config) (*Completer, error) {
	policy, err := New(config)
	if err != nil {
		return nil, err
	}
	return &Completer{config: policy.config, client: policy.client}, nil
}

// Usage counts the tokens of one answer, as the server reports them.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// ErrTruncated is returned when an answer was cut off at Config.MaxTokens.
var ErrTruncated = errors.New("the answer was cut off at the token limit")

// Complete returns the text of one answer. A server that fails, or gives no whole
// answer, is an *audit.Error with CodeInfrastructure; a prompt over the model's context
// is envace.ErrPrompt. With a schema the server is asked for
// JSON that fits it (response_format json_schema, strict); whether it does is the
// caller's to check, since servers differ.
func (c *Completer) Complete(ctx context.Context, messages []envace.Message, schema json.RawMessage, temperature float64) (string, Usage, error) {
	model, err := c.client.model(ctx)
	if err != nil {
		return "", Usage{}, err
	}
	body := map[string]any{"model": model, "messages": messages, "temperature": temperature, "max_tokens": c.config.MaxTokens}
	if schema != nil {
		body["response_format"] = map[string]any{
			"type": "json_schema", "json_schema": map[string]any{"name": "answer", "strict": true, "schema": schema},
		}
	}
	var reply struct {
		Choices []choice `json:"choices"`
		Usage   Usage    `json:"usage"`
	}
	if err := c.client.post(ctx, "/chat/completions", body, &reply); err != nil {
		return "", Usage{}, err
	}
	if len(reply.Choices) == 0 || reply.Choices[0].Message.Content == nil {
		return "", reply.Usage, c.client.failed(errors.New("the reply has no text"))
	}
	if reply.Choices[0].FinishReason == "length" {
		return "", reply.Usage, &audit.Error{
			Code: audit.CodeInfrastructure, Message: fmt.Sprintf("%s, which may write %d tokens", c.client.base, c.config.MaxTokens), Err: ErrTruncated,
			Hint: "name a model that says less, or thinks less, before it answers",
		}
	}
	return *reply.Choices[0].Message.Content, reply.Usage, nil
}

// Embed returns a vector for each text, in order.
func (c *Completer) Embed(ctx context.Context, texts []string) ([][]float64, error) {
	model, err := c.client.model(ctx)
	if err != nil {
		return nil, err
	}
	var reply struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
	}
	if err := c.client.post(ctx, "/embeddings", map[string]any{"model": model, "input": texts}, &reply); err != nil {
		return nil, err
	}
	vectors := make([][]float64, len(texts))
	for _, item := range reply.Data {
		if item.Index < 0 || item.Index >= len(vectors) || vectors[item.Index] != nil {
			return nil, fmt.Errorf("%s/embeddings: index %d of %d texts is wrong or repeated", c.client.base, item.Index, len(texts))
		}
		vectors[item.Index] = item.Embedding
	}
	for i, vector := range vectors {
		if len(vector) == 0 {
			return nil, fmt.Errorf("%s/embeddings: text %d of %d has no embedding", c.client.base, i, len(texts))
		}
	}
	return vectors, nil
}
