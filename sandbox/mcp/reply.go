package mcp

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/sandbox/adapter"
)

// read understands the response to a call. note tells of a declaration that is
// not kept; "" = none.
func read(r *adapter.ResultReader, tool string, response *jsonrpc.Response) (reply adapter.Reply, note string) {
	if response.Error != nil {
		return protocolError(response.Error), ""
	}
	var res result
	if err := json.Unmarshal(response.Result, &res); err != nil {
		return adapter.Failed(nil, audit.Unparseable, "the server's result is no tool result: "+err.Error(), nil), ""
	}
	if res.Type == "input_required" {
		return needsInput("the server asks the client for input before it answers"), ""
	}
	reply, note = r.Read(tool, response.Result)
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
func protocolError(err error) adapter.Reply {
	inference := audit.DefaultInference()
	wire := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	if e, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // a decoded response holds it unwrapped
		wire = e
	}
	if wire.Code == codeURLElicitation {
		return needsInput("the server sends the user to a web page")
	}
	family, known := inference.Code(strconv.FormatInt(wire.Code, 10))
	if byText := inference.Text(wire.Message); !known && wire.Code >= -32099 && wire.Code <= -32000 {
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
	if json.Unmarshal(meta[metaError], &known) == nil && slices.Contains(audit.Families(), known.Family) {
		reply.Error = &known
	}
	if reply.Status == audit.StatusOK {
		reply.Error = nil
	}
}
