package openenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/coder/websocket"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// episode is one connection, which is one environment.
type episode struct {
	server *server
	conn   *websocket.Conn
	done   bool // the environment says that its episode is over
}

var (
	_ adapter.Episode = (*episode)(nil)
	_ adapter.Lister  = (*episode)(nil)
	_ adapter.Viewer  = (*episode)(nil)
)

// serverError is a message of type error.
type serverError struct {
	Message string `json:"message"`
	Code    string `json:"code"`
}

func (e *serverError) Error() string { return e.Code + ": " + e.Message }

// observation is what reset and step are answered with.
type observation struct {
	Observation json.RawMessage `json:"observation"`
	Done        bool            `json:"done"`
}

// ask sends a message and reads the answer, which has its type or is an error.
func (e *episode) ask(ctx context.Context, kind string, data any, want string, into any) error {
	request := map[string]any{"type": kind}
	if data != nil {
		request["data"] = data
	}
	text, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	if err := e.conn.Write(ctx, websocket.MessageText, text); err != nil {
		return orCause(ctx, err)
	}
	_, reply, err := e.conn.Read(ctx)
	if err != nil {
		return orCause(ctx, err)
	}
	var message struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(reply, &message); err != nil {
		return fmt.Errorf("the server's answer to %s is no message: %w", kind, err)
	}
	if message.Type == "error" {
		failed := &serverError{}
		if err := json.Unmarshal(message.Data, failed); err != nil {
			return fmt.Errorf("the server's error is no message: %w", err)
		}
		return failed
	}
	if message.Type != want {
		return fmt.Errorf("the server answered %s with %q, not %q", kind, message.Type, want)
	}
	return json.Unmarshal(message.Data, into)
}

func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (e *episode) reset(ctx context.Context, start adapter.Begin) error {
	data := map[string]any{}
	for _, extra := range []json.RawMessage{e.server.spec.Reset, start.Seeding} {
		var fields map[string]json.RawMessage
		if len(extra) == 0 {
			continue
		}
		if err := json.Unmarshal(extra, &fields); err != nil {
			return fmt.Errorf("fields of reset: %w", err)
		}
		for name, value := range fields {
			data[name] = value
		}
	}
	if start.Seed != 0 {
		data["seed"] = start.Seed & (1<<53 - 1) // Python servers read any, others a double
	}
	if start.Task != "" {
		data["episode_id"] = start.Task
	}
	return e.ask(ctx, "reset", data, "observation", &observation{})
}

// listedTool is a tool in either spelling.
type listedTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Snake       json.RawMessage `json:"input_schema"`
	Camel       json.RawMessage `json:"inputSchema"`
}

// Tools implements adapter.Lister: by the MCP message where the server knows it,
// which is no step, else by a step.
func (e *episode) Tools(ctx context.Context) ([]audit.Tool, error) {
	var answer struct {
		Result struct {
			Tools []listedTool `json:"tools"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	err := e.ask(ctx, "mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": map[string]any{}}, "mcp", &answer)
	if err == nil && len(answer.Result.Tools) > 0 {
		return declared(answer.Result.Tools), nil
	}
	if _, refused := errors.AsType[*serverError](err); err != nil && !refused {
		return nil, err
	}
	var o observation
	if err := e.ask(ctx, "step", map[string]any{"type": "list_tools"}, "observation", &o); err != nil {
		if _, refused := errors.AsType[*serverError](err); refused {
			return nil, nil // tools that are registered by mode are listed nowhere: the declaration names them
		}
		return nil, err
	}
	var list struct {
		Tools []listedTool `json:"tools"`
	}
	if err := json.Unmarshal(o.Observation, &list); err != nil {
		return nil, fmt.Errorf("list_tools: %w", err)
	}
	return declared(list.Tools), nil
}

func declared(listed []listedTool) []audit.Tool {
	tools := make([]audit.Tool, len(listed))
	for i, t := range listed {
		tools[i] = audit.Tool{Name: t.Name, Description: t.Description, Input: t.Snake, Effect: audit.UnknownEffect}
		if len(t.Snake) == 0 {
			tools[i].Input = t.Camel
		}
	}
	return tools
}

// Call implements adapter.Episode.
func (e *episode) Call(ctx context.Context, tool string, arguments json.RawMessage) (adapter.Reply, error) {
	if e.done {
		reply := adapter.Failed(nil, audit.Internal, "the environment ended its episode before this call", nil)
		reply.Unmoved = true
		return reply, nil
	}
	var o observation
	err := e.ask(ctx, "step", map[string]any{"type": "call_tool", "tool_name": tool, "arguments": arguments}, "observation", &o)
	if failed, ok := errors.AsType[*serverError](err); ok {
		return e.refused(failed)
	}
	if err != nil {
		return adapter.Reply{}, err
	}
	e.done = o.Done
	return e.read(tool, o)
}

// read understands the observation after a call.
func (e *episode) read(tool string, o observation) (adapter.Reply, error) {
	var seen struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if !isObject(o.Observation, &seen) {
		return adapter.Failed(nil, audit.Unparseable, "the observation is no object", nil), nil
	}
	if len(seen.Error) > 0 && string(seen.Error) != "null" {
		return e.toolError(tool, seen.Error)
	}
	if !adapter.IsResult(seen.Result) {
		if len(seen.Result) == 0 {
			seen.Result = o.Observation // an environment with an observation of its own
		}
		return e.server.reader.Plain(tool, seen.Result), nil
	}
	reply, note := e.server.reader.Read(tool, seen.Result)
	if note != "" {
		e.server.note(note)
	}
	return reply, nil
}

func isObject(text json.RawMessage, into any) bool { return json.Unmarshal(text, into) == nil }

// toolError classifies a tool's error again. A tool that is listed cannot be
// missing, whatever the server calls it; a time-out may have done its work.
func (e *episode) toolError(tool string, raw json.RawMessage) (adapter.Reply, error) {
	var failed struct {
		Kind    string `json:"error_type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &failed) != nil {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		failed.Message = text
	}
	shown, err := json.Marshal(map[string]json.RawMessage{"error": raw})
	if err != nil {
		shown = raw
	}
	family, message := e.server.reader.Text(failed.Message)
	switch failed.Kind {
	case "timeout":
		return adapter.Reply{}, fmt.Errorf("tool %s: the server gave up on it: %s", tool, message)
	case "transport_error":
		family = audit.Internal
	}
	if family == audit.UnknownTool {
		family = audit.NotFound
	}
	return adapter.Failed(shown, family, message, nil), nil
}

// refused is an error of the server instead of an observation.
func (e *episode) refused(failed *serverError) (adapter.Reply, error) {
	raw, err := json.Marshal(map[string]any{"error": failed})
	if err != nil {
		raw = nil
	}
	switch failed.Code {
	case "INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR":
		reply := adapter.Failed(raw, audit.SchemaInvalid, failed.Message, nil)
		reply.Unmoved = true
		return reply, nil
	case "EXECUTION_ERROR": // most environments raise where a rule says no
		family, message := e.server.reader.Text(failed.Message)
		if family == audit.UnknownTool {
			family = audit.NotFound
		}
		return adapter.Failed(raw, family, message, nil), nil
	}
	return adapter.Reply{}, failed // SESSION_ERROR, FACTORY_ERROR: there is no environment any more
}

// View implements adapter.Viewer.
func (e *episode) View(ctx context.Context) (json.RawMessage, error) {
	var state map[string]json.RawMessage
	if err := e.ask(ctx, "state", nil, "state", &state); err != nil {
		return nil, err
	}
	maps.DeleteFunc(state, func(name string, _ json.RawMessage) bool { return name == "episode_id" || name == "step_count" })
	return json.Marshal(state)
}

// goodbye bounds the last words, which outlive the caller's context.
const goodbye = time.Second

// Close implements adapter.Episode. It does not wait for the server.
func (e *episode) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	_ = e.conn.Write(ctx, websocket.MessageText, []byte(`{"type":"close"}`)) // a courtesy
	_ = e.conn.CloseNow()
	return nil
}
