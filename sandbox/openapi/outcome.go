package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// Outcome is what an HTTP status means: a status of ours, with the family of an error.
type Outcome struct {
	Status audit.Status
	Family audit.Family
}

// outcome reads an answer by its status, and by its body where that says more:
//
//	2xx            ok, unless the body is an error
//	400            refused; the body says why
//	401 403 404 …  refused, with the family of the status
//	422            invalid
//	429 503        fault, and nothing was done
//	500 501 5xx    fault; a write may have happened half
//	502 504        no answer: unknown
//	3xx            fault
func (s *server) outcome(tool string, a answer) (adapter.Reply, error) {
	status, text := a.code, a.text
	if declared, ok := s.spec.Outcomes[strconv.Itoa(status)]; ok {
		return s.declared(tool, declared, status, text)
	}
	switch {
	case status/100 == 2:
		return s.reader.Plain(tool, text), nil
	case status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		return adapter.Reply{}, fmt.Errorf("%s: the backend gave no answer", a.status)
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		reply := adapter.Failed(text, audit.Transient, a.status+": the backend is busy", nil)
		reply.Unmoved = true
		return reply, nil
	case status/100 == 5 || status/100 == 3:
		return adapter.Failed(text, audit.Internal, a.status, nil), nil
	}
	shown, family, message := s.refusal(tool, status, text)
	return adapter.Failed(shown, family, message, nil), nil
}

func (s *server) declared(tool string, o Outcome, status int, text []byte) (adapter.Reply, error) {
	if o.Status == audit.StatusUnknown {
		return adapter.Reply{}, fmt.Errorf("HTTP status %d is declared to be no answer", status)
	}
	if o.Status == audit.StatusOK {
		return s.reader.Plain(tool, text), nil
	}
	shown, family, message := s.refusal(tool, status, text)
	if o.Family != "" {
		family = o.Family
	}
	reply := adapter.Failed(shown, family, message, nil)
	reply.Status = o.Status
	return reply, nil
}

// refusal is what an agent sees of an error, its family and its text. The status
// decides, as it does where a rehearsal is read; where it says too little, as 400
// does, the body's own code, and then its text.
func (s *server) refusal(tool string, status int, text []byte) (shown []byte, family audit.Family, message string) {
	shown = wrap(status, text)
	family, known := s.inference.Code(strconv.Itoa(status))
	decided := known && status != http.StatusBadRequest
	if inner := s.reader.Plain(tool, text); inner.Error != nil {
		message = inner.Error.Message
		if !decided {
			family, decided = inner.Error.Family, true
		}
	}
	if message == "" {
		message = detail(text)
	}
	if !decided {
		family, _ = s.reader.Text(message)
	}
	return shown, family, message
}

// wrap shows the status beside the body, for it alone says that this is an error.
func wrap(status int, text []byte) []byte {
	body := json.RawMessage(text)
	if !json.Valid(text) {
		quoted, err := json.Marshal(string(text))
		if err != nil {
			return text
		}
		body = quoted
	}
	out, err := json.Marshal(map[string]any{"status": status, "body": body})
	if err != nil {
		return text
	}
	return out
}

// detail is the text of an error body, where frameworks put it.
func detail(text []byte) string {
	var body struct {
		Detail  any `json:"detail"`
		Message any `json:"message"`
		Error   any `json:"error"`
		Title   any `json:"title"`
	}
	if json.Unmarshal(text, &body) == nil {
		for _, v := range []any{body.Detail, body.Message, body.Error, body.Title} {
			if s, ok := v.(string); ok {
				return s
			}
		}
	}
	return string(text[:min(len(text), 500)])
}
