package adapter

import (
	"encoding/json"
	"fmt"
	"regexp"

	"understudy/audit"
	"understudy/audit/diff"
)

// ResultReader understands MCP tool results, wherever they come from: as MCP
// sends them, and in the snake case of servers that wrap them.
type ResultReader struct {
	rules     *audit.Rules
	inference audit.Inference
	prefix    *regexp.Regexp
}

// NewResultReader makes a reader.
func NewResultReader() (*ResultReader, error) {
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	return &ResultReader{
		rules: rules, inference: audit.DefaultInference(),
		// What frameworks put before a tool's own error text. Left in place,
		// "tool x: order not found" reads like an unknown tool.
		prefix: regexp.MustCompile(`^(?i)error (executing|calling|in) tool '?[\w.-]+'?:\s*`),
	}, err
}

// toolResult is a tool's result as it stands on the wire.
type toolResult struct {
	Content []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	} `json:"content"`
	Camel   json.RawMessage `json:"structuredContent"`
	Snake   json.RawMessage `json:"structured_content"`
	IsError bool            `json:"isError"`
	Failed  bool            `json:"is_error"`
}

func (r toolResult) structured() json.RawMessage {
	for _, text := range []json.RawMessage{r.Camel, r.Snake} {
		if len(text) > 0 && string(text) != "null" {
			return text
		}
	}
	return nil
}

// IsResult reports whether a JSON value is a tool result rather than a tool's own answer.
func IsResult(raw []byte) bool {
	var object struct {
		Content []struct {
			Type string `json:"type"`
		} `json:"content"`
	}
	if json.Unmarshal(raw, &object) != nil || object.Content == nil {
		return false
	}
	for _, block := range object.Content {
		if block.Type == "" {
			return false
		}
	}
	return true
}

// Read understands a tool result. note tells of a declaration that is not kept;
// "" = none.
func (r *ResultReader) Read(tool string, raw []byte) (reply Reply, note string) {
	var res toolResult
	if err := json.Unmarshal(raw, &res); err != nil {
		return Failed(nil, audit.Unparseable, "no tool result: "+err.Error(), nil), ""
	}
	if res.IsError || res.Failed {
		return r.failure(tool, raw, res), ""
	}
	body, note := r.body(tool, raw, res)
	return Answered(r.rules.Of(tool), body), note
}

// Plain understands a tool's own answer, without an envelope of the protocol.
func (r *ResultReader) Plain(tool string, raw []byte) Reply { return Answered(r.rules.Of(tool), raw) }

// Text is the family of an error text, without what frameworks put before it.
func (r *ResultReader) Text(message string) (audit.Family, string) {
	bare := r.prefix.ReplaceAllString(message, "")
	return r.inference.Text(bare), bare
}

// toolError is a result with isError: a business rule's refusal, most often.
func (r *ResultReader) failure(tool string, raw []byte, res toolResult) Reply {
	message := ""
	for _, block := range res.Content {
		if block.Text != nil {
			message = *block.Text
			break
		}
	}
	shown, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": message}}, "isError": true})
	if err != nil || len(res.Content) != 1 || len(res.structured()) > 0 {
		shown = withoutMeta(raw)
	}
	rules := r.rules.Of(tool)
	bare := r.prefix.ReplaceAllString(message, "")
	if inner := rules.Read([]byte(bare)); inner.Valid && inner.Outcome.IsError() && !inner.Inferred {
		return Failed(shown, inner.Outcome.Family, inner.Message, nil)
	}
	if outer := rules.Read(withoutMeta(raw)); outer.Valid && outer.Outcome.IsError() && !outer.Inferred {
		return Failed(shown, outer.Outcome.Family, outer.Message, nil)
	}
	return Failed(shown, r.inference.Text(bare), bare, nil)
}

// body is what an agent sees of a successful result: the text where there is one
// block, else the structured content, else the blocks.
func (r *ResultReader) body(tool string, raw []byte, res toolResult) (body []byte, note string) {
	if len(res.Content) == 1 && res.Content[0].Type == "text" && res.Content[0].Text != nil {
		text := []byte(*res.Content[0].Text)
		if len(res.structured()) > 0 && !agree(text, res.structured()) {
			note = fmt.Sprintf("tool %s: structuredContent and the text disagree; the text is taken, for it is what agents see", tool)
		}
		return text, note
	}
	if len(res.structured()) > 0 {
		return unwrapped(res.structured()), ""
	}
	return withoutMeta(raw), ""
}

// agree reports whether a text says what the structured content says. Servers
// wrap what is no object as {"result": value}.
func agree(text []byte, structured json.RawMessage) bool {
	n, err := diff.Normalise(text, diff.Limits{})
	if err != nil {
		return false
	}
	value, err := diff.Decode(structured, diff.Limits{})
	if err != nil {
		return false
	}
	if diff.Equal(n.Value, value) || diff.Equal(n.Envelope, value) {
		return true
	}
	inner, ok := value.Get("result")
	return ok && value.Len() == 1 && (diff.Equal(n.Value, inner) || diff.Equal(n.Envelope, inner))
}

// unwrapped is the value of {"result": value}, the shape for what is no object.
func unwrapped(structured json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(structured, &object) == nil && len(object) == 1 && len(object["result"]) > 0 {
		return object["result"]
	}
	return structured
}

// withoutMeta drops what is for clients and not for agents.
func withoutMeta(raw []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return raw
	}
	for _, name := range []string{"_meta", "meta", "resultType", "data"} {
		delete(object, name)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return raw
	}
	return text
}
