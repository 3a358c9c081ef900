package serve

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"understudy/gpu/chat"
	"understudy/gpu/generate"
	"understudy/gpu/grammar"
	"understudy/gpu/tokenizer"
)

// Config is what the API is made of.
type Config struct {
	Name      string // of the model, as clients call it
	Engine    *generate.Engine
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template
	Logger    *slog.Logger
	Now       func() time.Time // nil = time.Now
	// Waiting is the most texts that may run or wait at once; beyond it a client is
	// told to come back. 0 = 1024.
	Waiting int
}

const defaultWaiting = 1024

// server answers requests.
type server struct {
	Config
	vocabulary *grammar.Vocabulary // nil: the tokenizer's tokens cannot be held to a grammar
	unfit      error               // why
	longest    int                 // bytes of the longest token
	stop       []int32             // the token that ends an answer, if the tokenizer has it
	waiting    atomic.Int64

	mu       sync.Mutex
	grammars map[[sha256.Size]byte]*grammar.Grammar // by the digest of what they are made of
}

// New returns the handler of the API.
func New(c Config) (http.Handler, error) {
	if c.Name == "" || c.Engine == nil || c.Tokenizer == nil || c.Template == nil || c.Logger == nil {
		return nil, errors.New("serve a model: name, engine, tokenizer, template and logger are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Waiting == 0 {
		c.Waiting = defaultWaiting
	}
	s := &server{Config: c, longest: 1, grammars: map[[sha256.Size]byte]*grammar.Grammar{}}
	s.vocabulary, s.unfit = grammar.NewVocabulary(Tokens(c.Tokenizer))
	for id := range c.Tokenizer.Size() {
		s.longest = max(s.longest, len(c.Tokenizer.Token(int32(id)))) //nolint:gosec // a token id
	}
	if id, ok := c.Tokenizer.ID(c.Template.Stop()); ok {
		s.stop = []int32{id}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.handle(s.chat))
	mux.HandleFunc("POST /v1/completions", s.handle(s.completions))
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /v1/models/{name}", s.model)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		writeFault(w, &fault{Status: http.StatusNotFound, Kind: invalidRequest, Message: "no such endpoint: " + r.Method + " " + r.URL.Path})
	})
	return mux, nil
}

// Tokens are the bytes of each id of a tokenizer, nil for special ones: what
// generate.Config.Tokens and a grammar need.
func Tokens(t *tokenizer.Tokenizer) [][]byte {
	out := make([][]byte, t.Size())
	for id := range out {
		if i := int32(id); !t.IsSpecial(i) { //nolint:gosec // a token id
			out[id] = []byte(t.Token(i))
		}
	}
	return out
}

// maxBody bounds a request: a long context as JSON.
const maxBody = 32 << 20

// handle wraps a handler: its error becomes an error envelope.
func (s *server) handle(f func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		err := f(w, r)
		if err == nil || r.Context().Err() != nil {
			return
		}
		known := asFault(err)
		if known.Status >= http.StatusInternalServerError {
			s.Logger.ErrorContext(r.Context(), "request failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		}
		writeFault(w, known)
	}
}

// modelEntry is a model as clients list it.
func (s *server) modelEntry() map[string]any {
	return map[string]any{"id": s.Name, "object": "model", "created": 0, "owned_by": "understudy", "max_model_len": s.Engine.Limit()}
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{s.modelEntry()}})
}

func (s *server) model(w http.ResponseWriter, r *http.Request) {
	if err := s.known(r.PathValue("name")); err != nil {
		writeFault(w, asFault(err))
		return
	}
	writeJSON(w, http.StatusOK, s.modelEntry())
}

func (s *server) known(name string) error {
	if name == "" || name == s.Name {
		return nil
	}
	return &fault{
		Status: http.StatusNotFound, Kind: invalidRequest, Param: "model", Code: "model_not_found",
		Message: "the model " + strconv.Quote(name) + " is not served here; " + strconv.Quote(s.Name) + " is",
	}
}

// enter counts texts that run or wait; leave gives the place back.
func (s *server) enter(texts int) (leave func(), err error) {
	if s.waiting.Add(int64(texts)) > int64(s.Waiting) {
		s.waiting.Add(int64(-texts))
		return nil, &fault{Status: http.StatusTooManyRequests, Kind: "rate_limit_error", Code: "queue_full", Message: "the queue of " + strconv.Itoa(s.Waiting) + " texts is full; try again in a second"}
	}
	return func() { s.waiting.Add(int64(-texts)) }, nil
}

// newID names a reply or a call.
func newID(prefix string) string {
	return prefix + strconv.FormatUint(rand.Uint64()|1<<63, 36) //nolint:gosec // a name, not a secret
}
