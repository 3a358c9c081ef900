package trace

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// otelSpans reads OTLP JSON with GenAI spans (facts: protocols 5): execute_tool
// spans, or the message attributes of chat spans where a trace has no tool
// spans. Spans of one conversation, else of one trace, are one episode; they
// may be spread over many records.
type otelSpans struct {
	byGroup map[string][]otelSpan
}

type otelDocument struct {
	ResourceSpans []struct {
		ScopeSpans []struct {
			Spans []otelSpan `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

type otelSpan struct {
	TraceID    string          `json:"traceId"`
	SpanID     string          `json:"spanId"`
	Name       string          `json:"name"`
	Start      json.RawMessage `json:"startTimeUnixNano"`
	Attributes []struct {
		Key   string                     `json:"key"`
		Value map[string]json.RawMessage `json:"value"`
	} `json:"attributes"`
}

// attribute is a span's string attribute; other kinds come as their JSON.
func (sp otelSpan) attribute(key string) string {
	for _, a := range sp.Attributes {
		if a.Key != key {
			continue
		}
		for kind, value := range a.Value {
			if kind == "stringValue" {
				return text(value)
			}
			return string(value)
		}
	}
	return ""
}

func (sp otelSpan) start() uint64 {
	n, _ := strconv.ParseUint(strings.Trim(string(sp.Start), `"`), 10, 64) // an unreadable time sorts first
	return n
}

func (o *otelSpans) read(rec record, s *sink) {
	var doc otelDocument
	if err := json.Unmarshal(rec.body, &doc); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	for _, resource := range doc.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, sp := range scope.Spans {
				group := cmp.Or(sp.attribute("gen_ai.conversation.id"), sp.TraceID)
				o.byGroup[group] = append(o.byGroup[group], sp)
			}
		}
	}
}

func (o *otelSpans) flush(s *sink) {
	for _, group := range slices.Sorted(maps.Keys(o.byGroup)) {
		spans := o.byGroup[group]
		slices.SortStableFunc(spans, func(a, b otelSpan) int { return cmp.Compare(a.start(), b.start()) })
		t := trajectory{id: group, line: 0}
		for _, sp := range spans {
			t.policy = cmp.Or(t.policy, sp.attribute("gen_ai.request.model"))
			t.toolSpan(sp)
		}
		if len(t.exchanges) == 0 {
			t.chatSpans(spans)
		}
		s.emit(t)
	}
}

func (t *trajectory) toolSpan(sp otelSpan) {
	if sp.attribute("gen_ai.operation.name") != "execute_tool" && !strings.HasPrefix(sp.Name, "execute_tool") {
		return
	}
	e := exchange{
		id:        strings.TrimSpace(sp.attribute("gen_ai.tool.call.id")),
		tool:      cmp.Or(sp.attribute("gen_ai.tool.name"), strings.TrimPrefix(sp.Name, "execute_tool ")),
		arguments: json.RawMessage(sp.attribute("gen_ai.tool.call.arguments")),
	}
	if result := sp.attribute("gen_ai.tool.call.result"); result != "" {
		e.answer, e.answered = []byte(result), true
	}
	if kind := sp.attribute("error.type"); kind != "" {
		failed := true
		e.failed = &failed
		if !e.answered {
			e.answer, e.answered = []byte("Error: "+kind), true
		}
	}
	t.call(e)
}

// otelPart is a part of a message attribute. The conventions' own example says
// result where their schema says response, and pads ids with a space.
type otelPart struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Response  json.RawMessage `json:"response"`
	Result    json.RawMessage `json:"result"`
}

// chatSpans takes the last chat span's messages: it holds the whole conversation.
func (t *trajectory) chatSpans(spans []otelSpan) {
	for _, sp := range slices.Backward(spans) {
		input := sp.attribute("gen_ai.input.messages")
		if input == "" {
			continue
		}
		for _, raw := range []string{input, sp.attribute("gen_ai.output.messages")} {
			var messages []struct {
				Parts []otelPart `json:"parts"`
			}
			if json.Unmarshal([]byte(raw), &messages) != nil {
				continue
			}
			for _, m := range messages {
				t.otelParts(m.Parts)
			}
		}
		return
	}
}

func (t *trajectory) otelParts(parts []otelPart) {
	for _, part := range parts {
		id := strings.TrimSpace(part.ID)
		switch part.Type {
		case "tool_call":
			t.call(exchange{id: id, tool: part.Name, arguments: part.Arguments})
		case "tool_call_response":
			raw := part.Response
			if raw == nil {
				raw = part.Result
			}
			t.answer(id, content(raw), nil)
		}
	}
}
