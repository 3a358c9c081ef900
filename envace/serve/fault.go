package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"understudy/gpu/generate"
	"understudy/gpu/grammar"
)

// invalidRequest is OpenAI's type of the caller's errors.
const invalidRequest = "invalid_request_error"

// fault is an error in OpenAI's envelope.
type fault struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	Kind    string `json:"type"`
	Param   string `json:"-"`
	Code    string `json:"-"`
}

// Error is the message.
func (f *fault) Error() string { return f.Message }

// MarshalJSON writes null for what is not known, as clients expect.
func (f *fault) MarshalJSON() ([]byte, error) {
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return json.Marshal(map[string]any{"message": f.Message, "type": f.Kind, "param": orNull(f.Param), "code": orNull(f.Code)})
}

func badRequest(param, format string, args ...any) error {
	return &fault{Status: http.StatusBadRequest, Kind: invalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// asFault sorts an error; one that is not known keeps its text from the client.
func asFault(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &fault{Status: http.StatusRequestEntityTooLarge, Kind: invalidRequest, Message: fmt.Sprintf("the request is over %d MiB", tooLarge.Limit>>20)}
	}
	switch {
	case errors.Is(err, generate.ErrContext), errors.Is(err, generate.ErrBudget):
		return &fault{Status: http.StatusBadRequest, Kind: invalidRequest, Code: "context_length_exceeded", Message: err.Error()}
	case errors.Is(err, generate.ErrInvalid):
		return &fault{Status: http.StatusBadRequest, Kind: invalidRequest, Message: err.Error()}
	case errors.Is(err, grammar.ErrUnsupported):
		return &fault{Status: http.StatusBadRequest, Kind: invalidRequest, Code: "unsupported_schema", Message: err.Error()}
	case errors.Is(err, generate.ErrClosed):
		return &fault{Status: http.StatusServiceUnavailable, Kind: "server_error", Message: "the engine is stopping"}
	case errors.Is(err, generate.ErrNotFinite):
		return &fault{Status: http.StatusInternalServerError, Kind: "server_error", Code: "not_finite", Message: "the model gave " + err.Error()}
	}
	return &fault{Status: http.StatusInternalServerError, Kind: "server_error", Message: "internal error"}
}

func writeFault(w http.ResponseWriter, f *fault) {
	if f.Status == http.StatusTooManyRequests || f.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, f.Status, map[string]any{"error": f})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone: nobody to tell
}
