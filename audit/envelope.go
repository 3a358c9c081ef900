package audit

import (
	"strings"

	"understudy/audit/diff"
)

// Envelope names a known way in which tools wrap an error.
type Envelope string

// The known envelopes, in the order in which they are tried.
const (
	ErrorToolCall Envelope = "error_tool_call" // {"error_tool_call": {code, message}}: the EnvACE simulator
	MCPResult     Envelope = "mcp"             // isError or is_error, text in content
	HTTPStatus    Envelope = "http_status"     // status or status_code of 400 and more beside a body
	SuccessFlag   Envelope = "success_flag"    // success or ok is false
	ErrorKey      Envelope = "error_key"       // {"error": text, object or true}
	ErrorText     Envelope = "error_text"      // the bare text "Error: ..."
)

// Envelopes lists every known envelope in the order in which they are tried.
func Envelopes() []Envelope {
	return []Envelope{ErrorToolCall, MCPResult, HTTPStatus, SuccessFlag, ErrorKey, ErrorText}
}

// FieldEnvelope is a tool's own envelope: the answer is an error when the value
// at Pointer is one of Failed.
type FieldEnvelope struct {
	Pointer string   `yaml:"pointer" json:"pointer"`
	Failed  []string `yaml:"failed" json:"failed"`
	Code    string   `yaml:"code,omitempty" json:"code,omitempty"`       // pointer of the error code
	Message string   `yaml:"message,omitempty" json:"message,omitempty"` // pointer of the error text
}

// failure is what an envelope says of an answer.
type failure struct {
	failed  bool
	code    string
	message string
}

// open applies one envelope; found is false when the answer does not use it.
func (e Envelope) open(v diff.Value) (f failure, found bool) {
	switch e {
	case ErrorToolCall:
		return member(v, "error_tool_call")
	case MCPResult:
		return openMCP(v)
	case HTTPStatus:
		return openHTTP(v)
	case SuccessFlag:
		return openFlag(v)
	case ErrorKey:
		return member(v, "error")
	case ErrorText:
		return openText(v)
	}
	return failure{}, false
}

func (e FieldEnvelope) open(v diff.Value) (f failure, found bool) {
	at, ok := v.Lookup(e.Pointer)
	if !ok {
		return failure{}, false
	}
	for _, text := range e.Failed {
		if strings.EqualFold(at.Text(), text) {
			return failure{failed: true, code: textAt(v, e.Code), message: textAt(v, e.Message)}, true
		}
	}
	return failure{}, true
}

// member reads {"name": text | object | true}. Null, false, "" and an empty
// object say that there is no error.
func member(v diff.Value, name string) (failure, bool) {
	at, ok := v.Get(name)
	if !ok {
		return failure{}, false
	}
	switch at.Type() {
	case diff.TypeString:
		if at.IsEmpty() {
			return failure{}, false
		}
		return failure{failed: true, code: codeOf(v), message: at.Text()}, true
	case diff.TypeObject:
		if at.Len() == 0 {
			return failure{}, false
		}
		return failure{failed: true, code: codeOf(at), message: messageOf(at)}, true
	case diff.TypeBool:
		if !at.Bool() {
			return failure{}, false
		}
		return failure{failed: true, code: codeOf(v), message: messageOf(v)}, true
	case diff.TypeNumber:
		return failure{failed: true, code: at.Text(), message: messageOf(v)}, true
	case diff.TypeArray:
		return failure{failed: at.Len() > 0, message: at.String()}, at.Len() > 0
	case diff.TypeAbsent, diff.TypeNull:
	}
	return failure{}, false
}

func openMCP(v diff.Value) (failure, bool) {
	flag, ok := first(v, "isError", "is_error")
	if !ok || flag.Type() != diff.TypeBool {
		return failure{}, false
	}
	if !flag.Bool() {
		return failure{}, true
	}
	f := failure{failed: true}
	if structured, ok := first(v, "structuredContent", "structured_content"); ok {
		if inner, ok := member(structured, "error"); ok {
			f.code, f.message = inner.code, inner.message
		}
	}
	content, _ := v.Get("content")
	for _, block := range content.Elements() {
		if text, ok := block.Get("text"); ok && f.message == "" {
			f.message = text.Text()
		}
	}
	return f, true
}

// openHTTP needs a body or an error text beside the number: many a domain has a
// field called status.
func openHTTP(v diff.Value) (failure, bool) {
	status, ok := first(v, "status_code", "statusCode", "http_status", "status")
	if !ok || status.Type() != diff.TypeNumber {
		return failure{}, false
	}
	body, beside := first(v, "body", "error", "message", "detail", "title")
	if !beside {
		return failure{}, false
	}
	code := status.Text()
	if len(code) != 3 || code < "400" || code > "599" {
		return failure{}, false
	}
	message := messageOf(v)
	if message == "" {
		message = messageOf(body)
	}
	if inner, ok := member(v, "error"); ok {
		if inner.message != "" {
			message = inner.message
		}
		if inner.code != "" {
			code = inner.code
		}
	}
	return failure{failed: true, code: code, message: message}, true
}

func openFlag(v diff.Value) (failure, bool) {
	flag, ok := first(v, "success", "ok")
	if !ok || flag.Type() != diff.TypeBool {
		return failure{}, false
	}
	if flag.Bool() {
		return failure{}, true
	}
	f := failure{failed: true, code: codeOf(v), message: messageOf(v)}
	if inner, ok := member(v, "error"); ok {
		f.message = inner.message
		if inner.code != "" {
			f.code = inner.code
		}
	}
	return f, true
}

func openText(v diff.Value) (failure, bool) {
	if v.Type() != diff.TypeString {
		return failure{}, false
	}
	text := strings.TrimSpace(v.Text())
	for _, prefix := range []string{"error", "exception", "traceback (most recent call last)"} {
		if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
			continue
		}
		rest := text[len(prefix):]
		if rest == "" || strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, " executing") || strings.HasPrefix(rest, " when executing") {
			return failure{failed: true, message: strings.TrimSpace(strings.TrimPrefix(rest, ":"))}, true
		}
	}
	return failure{}, false
}

func codeOf(v diff.Value) string {
	code, _ := first(v, "family", "code", "error_code", "errorCode", "type", "status")
	return code.Text()
}

func messageOf(v diff.Value) string {
	if v.Type() == diff.TypeString {
		return v.Text()
	}
	message, _ := first(v, "message", "error_message", "detail", "details", "reason", "description", "title", "data")
	return message.Text()
}

func first(v diff.Value, names ...string) (diff.Value, bool) {
	for _, name := range names {
		if at, ok := v.Get(name); ok {
			return at, true
		}
	}
	return diff.Value{}, false
}

func textAt(v diff.Value, pointer string) string {
	if pointer == "" {
		return ""
	}
	at, _ := v.Lookup(pointer)
	return at.Text()
}
