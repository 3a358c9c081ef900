package judge

import (
	"encoding/json"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
)

// Scripted is the HTTP side of a judge without a model, for dry runs and tests: it
// answers as an OpenAI-compatible server does, and decide writes the status and the
// model's text for a request's body.
func Scripted(decide func(body string) (status int, text string)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"judge"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		status, text := decide(string(body))
		content, _ := json.Marshal(text) // a string
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"choices":[{"finish_reason":"stop","message":{"content":`+string(content)+`}}]}`)
	})
	return mux
}

// ByHash passes about half of what it is asked, always the same half: rewards differ,
// and mean nothing.
func ByHash(body string) (status int, text string) {
	h := fnv.New32a()
	_, _ = io.WriteString(h, strings.TrimSpace(body))
	verdict := Fail
	if h.Sum32()>>8&1 == 0 {
		verdict = Pass
	}
	return http.StatusOK, `{"reason":"by hash","verdict":"` + string(verdict) + `"}`
}
