package serve

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"understudy/gpu/grammar"
)

// maxGrammars bounds what is kept compiled: an agent uses a few forms, again and
// again.
const maxGrammars = 64

// form is what an answer is held to.
type form struct {
	grammar *grammar.Grammar // nil = nothing
	calls   *grammar.Calls   // how tool calls are written; nil = there are none
	relaxed []string         // tools whose arguments are not held to their schema
	forced  bool             // it begins with the first token: there is no room for thinking
}

type toolSpec struct {
	Type     string `json:"type"`
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
		Strict     bool            `json:"strict"`
	} `json:"function"`
}

// form reads response_format, tools and tool_choice.
func (s *server) form(r *chatRequest) (form, error) {
	if len(r.Functions) > 0 {
		return form{}, badRequest("functions", "functions is not supported: send tools")
	}
	choice, name, err := toolChoice(r.ToolChoice, len(r.Tools) > 0)
	if err != nil {
		return form{}, err
	}
	kind := "text"
	if r.ResponseFormat != nil && r.ResponseFormat.Type != "" {
		kind = r.ResponseFormat.Type
	}
	if choice != "none" && len(r.Tools) > 0 {
		if kind != "text" {
			return form{}, badRequest("response_format", "response_format %s together with tools is not supported: set tool_choice to none", kind)
		}
		return s.toolForm(r, choice, name)
	}
	switch kind {
	case "text":
		return form{}, nil
	case "json_object":
		g, err := s.compiled("object", grammar.Object())
		return form{grammar: g, forced: true}, asSchemaFault("response_format", err)
	case "json_schema":
		schema := r.ResponseFormat.JSONSchema.Schema
		if len(schema) == 0 {
			return form{}, badRequest("response_format", "response_format.json_schema.schema is missing")
		}
		g, err := s.compiled("schema "+string(schema), grammar.Schema(schema))
		return form{grammar: g, forced: true}, asSchemaFault("response_format", err)
	}
	return form{}, badRequest("response_format", "response_format.type is %q: it must be text, json_object or json_schema", kind)
}

// toolChoice is auto, none, required, or the name of one tool.
func toolChoice(raw json.RawMessage, tools bool) (choice, name string, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "auto", "", nil
	}
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &choice) == nil {
		switch {
		case choice != "auto" && choice != "none" && choice != "required":
			return "", "", badRequest("tool_choice", "tool_choice is %q: it must be auto, none, required or a function", choice)
		case choice == "required" && !tools:
			return "", "", badRequest("tool_choice", "tool_choice is required, and there are no tools")
		}
		return choice, "", nil
	}
	if json.Unmarshal(raw, &named) != nil || named.Function.Name == "" {
		return "", "", badRequest("tool_choice", "tool_choice must be auto, none, required, or a function with its name")
	}
	return "required", named.Function.Name, nil
}

// toolForm is text with calls, or nothing but calls.
func (s *server) toolForm(r *chatRequest, choice, name string) (form, error) {
	if !s.Template.HasTools() {
		return form{}, badRequest("tools", "the model's chat template, %s, has no tools: serve a model whose template has them (Qwen3), or ask for JSON with response_format", s.Template.Format())
	}
	calls := grammar.Calls{ // as the template renders them
		Before: "<tool_call>\n", After: "\n</tool_call>", Between: "\n", Trigger: "<tool_call>",
		Required: choice == "required",
	}
	calls.Once = name != "" || r.ParallelCalls != nil && !*r.ParallelCalls
	var f form
	key := []string{"tools", choice, name, string(marshal(calls.Once))}
	for i, raw := range r.Tools {
		var spec toolSpec
		if err := json.Unmarshal(raw, &spec); err != nil || spec.Function.Name == "" || spec.Type != "function" {
			return form{}, badRequest("tools", "tools[%d] must be of type function, with a function that has a name", i)
		}
		if name != "" && name != spec.Function.Name {
			continue
		}
		call := grammar.Call{Name: spec.Function.Name, Parameters: spec.Function.Parameters}
		if string(call.Parameters) == "null" {
			call.Parameters = nil
		}
		err := s.tryTool(call)
		switch {
		case err == nil:
		case errors.Is(err, grammar.ErrUnsupported) && !spec.Function.Strict && !calls.Required:
			f.relaxed = append(f.relaxed, err.Error())
			call.Parameters = nil
		default:
			return form{}, asSchemaFault("tools", err)
		}
		calls.Tools = append(calls.Tools, call)
		key = append(key, call.Name, string(call.Parameters))
	}
	if len(calls.Tools) == 0 {
		return form{}, badRequest("tool_choice", "tool_choice names %q, which is none of the tools", name)
	}
	f.calls, f.forced = &calls, calls.Required
	if s.vocabulary == nil && !calls.Required {
		return f, nil // free text, in which calls are found all the same
	}
	var err error
	f.grammar, err = s.compiled(strings.Join(key, "\x00"), grammar.Tools(calls))
	return f, asSchemaFault("tools", err)
}

// tryTool says whether a tool's parameters can be kept.
func (s *server) tryTool(call grammar.Call) error {
	if s.vocabulary == nil || len(call.Parameters) == 0 {
		return nil
	}
	_, err := s.compiled("tool "+call.Name+" "+string(call.Parameters), grammar.Tools(grammar.Calls{Before: "x", Tools: []grammar.Call{call}}))
	return err
}

// compiled finds or makes a grammar. It is made outside of the lock: nobody waits for
// another's schema.
func (s *server) compiled(key string, part grammar.Part) (*grammar.Grammar, error) {
	if s.vocabulary == nil {
		return nil, s.unfit
	}
	digest := sha256.Sum256([]byte(key))
	s.mu.Lock()
	g, ok := s.grammars[digest]
	s.mu.Unlock()
	if ok {
		return g, nil
	}
	g, err := grammar.New(s.vocabulary, part)
	if err != nil {
		return nil, err
	}
	if ignored := g.Ignored(); len(ignored) > 0 {
		s.Logger.Info("a schema says what is not enforced", slog.Int("places", len(ignored)), slog.String("first", ignored[0]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grammars) >= maxGrammars {
		clear(s.grammars)
	}
	s.grammars[digest] = g
	return g, nil
}

func asSchemaFault(param string, err error) error {
	if err == nil {
		return nil
	}
	f, _ := errors.AsType[*fault](badRequest(param, "%v", err))
	if errors.Is(err, grammar.ErrUnsupported) {
		f.Code = "unsupported_schema"
	}
	return f
}

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return nil // only plain values are given
	}
	return data
}
