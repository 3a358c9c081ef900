package mcp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/sandbox/adapter"
)

// reader turns responses into replies.
type reader struct {
	rules     *audit.Rules
	inference audit.Inference
	prefix    *regexp.Regexp
}

func newReader() (*reader, error) {
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	return &reader{
		rules: rules, inference: audit.DefaultInference(),
		// What frameworks put before a tool's own error text. Left in place,
		// "tool x: order not found" reads like an unknown tool.
		prefix: regexp.MustCompile(`^(?i)error (executing|calling|in) tool '?[\w.-]+'?:\s*`),
	}, err
}

// read understands the response to a call. note tells of a declaration that is
// not kept; "" = none.
func (r *reader) read(tool string, response *jsonrpc.Response) (reply adapter.Reply, note string) {
	if response.Error != nil {
		return r.protocolError(response.Error), ""
	}
	var res result
	if err := json.Unmarshal(response.Result, &res); err != nil {
		return adapter.Failed(nil, audit.Unparseable, "the server's result is no tool result: "+err.Error(), nil), ""
	}
	if res.Type == "input_required" {
		return needsInput("the server asks the client for input before it answers"), ""
	}
	if res.IsError {
		reply = r.toolError(tool, response.Result, res)
	} else {
		var raw []byte
		raw, note = r.body(tool, response.Result, res)
		reply = adapter.Answered(r.rules.Of(tool), raw)
	}
	extended(&reply, res)
	return reply, note
}

// needsInput is the reply for a server that would go on only with an answer of a
// person: there is none in an audit, and nothing has happened.
func needsInput(what string) adapter.Reply {
	reply := adapter.Failed(nil, audit.Internal, "needs_input: "+what+"; an audit cannot give any", json.RawMessage(`{"needs_input":true}`))
	reply.Unmoved = true
	return reply
}

const codeURLElicitation = -32042

// protocolError is a JSON-RPC error: the server never ran the tool, or broke.
func (r *reader) protocolError(err error) adapter.Reply {
	wire := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	if e, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // a decoded response holds it unwrapped
		wire = e
	}
	if wire.Code == codeURLElicitation {
		return needsInput("the server sends the user to a web page")
	}
	family, known := r.inference.Code(strconv.FormatInt(wire.Code, 10))
	if byText := r.inference.Text(wire.Message); !known && wire.Code >= -32099 && wire.Code <= -32000 {
		family = audit.Internal
	} else if !known || byText == audit.UnknownTool && family == audit.SchemaInvalid {
		family = byText // unknown tools come as invalid params
	}
	raw, encodeErr := json.Marshal(map[string]any{"error": map[string]any{"code": wire.Code, "message": wire.Message}})
	if encodeErr != nil {
		raw = nil
	}
	return adapter.Failed(raw, family, wire.Message, nil)
}

// toolError is a result with isError: a business rule's refusal, most often.
func (r *reader) toolError(tool string, raw []byte, res result) adapter.Reply {
	message := ""
	for _, block := range res.Content {
		if block.Text != nil {
			message = *block.Text
			break
		}
	}
	shown, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": message}}, "isError": true})
	if err != nil || len(res.Content) != 1 || len(res.Structured) > 0 {
		shown = withoutMeta(raw)
	}
	rules := r.rules.Of(tool)
	bare := r.prefix.ReplaceAllString(message, "")
	if inner := rules.Read([]byte(bare)); inner.Valid && inner.Outcome.IsError() && !inner.Inferred {
		return adapter.Failed(shown, inner.Outcome.Family, inner.Message, nil)
	}
	if outer := rules.Read(withoutMeta(raw)); outer.Valid && outer.Outcome.IsError() && !outer.Inferred {
		return adapter.Failed(shown, outer.Outcome.Family, outer.Message, nil)
	}
	return adapter.Failed(shown, r.inference.Text(bare), bare, nil)
}

// body is what an agent sees of a successful result: the text where there is one
// block, else the structured content, else the blocks.
func (r *reader) body(tool string, raw []byte, res result) (body []byte, note string) {
	if len(res.Content) == 1 && res.Content[0].Type == "text" && res.Content[0].Text != nil {
		text := []byte(*res.Content[0].Text)
		if len(res.Structured) > 0 && !agree(text, res.Structured) {
			note = fmt.Sprintf("tool %s: structuredContent and the text disagree; the text is taken, for it is what agents see", tool)
		}
		return text, note
	}
	if len(res.Structured) > 0 {
		return unwrapped(res.Structured), ""
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
	delete(object, "_meta")
	delete(object, "resultType")
	text, err := json.Marshal(object)
	if err != nil {
		return raw
	}
	return text
}

// extended takes what a server with our extension knows of the call.
func extended(reply *adapter.Reply, res result) {
	meta := res.Meta
	if len(meta[metaDelta]) == 0 {
		return
	}
	var effect adapter.Effect
	var status audit.Status
	for name, into := range map[string]any{metaDelta: &effect.Delta, metaBefore: &effect.Before, metaAfter: &effect.After} {
		if json.Unmarshal(meta[name], into) != nil {
			return
		}
	}
	if effect.Delta == nil {
		effect.Delta = diff.Patch{}
	}
	reply.Effect = &effect
	if len(res.Content) == 1 && res.Content[0].Text != nil {
		reply.Raw = []byte(*res.Content[0].Text)
	}
	if json.Unmarshal(meta[metaStatus], &status) == nil && status != "" {
		reply.Status = status
	}
	var known audit.CallError
	if json.Unmarshal(meta[metaError], &known) == nil && known.Family != "" {
		reply.Error = &known
	}
	if reply.Status == audit.StatusOK {
		reply.Error = nil
	}
}
