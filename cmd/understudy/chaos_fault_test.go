package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"understudy/audit"
)

// fault is one thing that goes wrong for a while.
type fault struct {
	name string
	// strike does it, and returns when it is over: what a supervisor or an operator
	// would do is done by then. Its randomness is the round's.
	strike func(ctx context.Context, c *chaos, rng *rand.Rand) error
}

// faults are all kinds of them. What is not really done but injected by a seam
// says so: only the clock is, because the machine has but one.
func faults() []fault {
	model := func(mode modelMode) func(context.Context, *chaos, *rand.Rand) error {
		return func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			c.model.mode.Store(int32(mode))
			c.touched(mode)
			hold(ctx, rng, 600)
			c.model.mode.Store(int32(modelGood))
			return nil
		}
	}
	return []fault{
		{"worker killed", func(_ context.Context, c *chaos, rng *rand.Rand) error {
			c.workers[rng.IntN(len(c.workers))].signal(syscall.SIGKILL)
			return nil
		}},
		{"worker stopped in order", func(_ context.Context, c *chaos, rng *rand.Rand) error {
			c.workers[rng.IntN(len(c.workers))].signal(syscall.SIGTERM)
			return nil
		}},
		{"worker frozen", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			w := c.workers[rng.IntN(len(c.workers))]
			w.signal(syscall.SIGSTOP)
			hold(ctx, rng, 1500) // longer than the others wait for it
			w.signal(syscall.SIGCONT)
			return nil
		}},
		{"service killed", func(_ context.Context, c *chaos, _ *rand.Rand) error {
			c.service.signal(syscall.SIGKILL)
			return nil
		}},
		{"postgres killed", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			err := c.postgres.kill()
			hold(ctx, rng, 200)
			_ = c.postgres.start(ctx) // it cannot while its disk is full, by another fault: heal starts it then
			return err
		}},
		{"postgres disk full", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			if !c.postgres.disk.mounted {
				return errNotHere
			}
			err := c.postgres.disk.fill()
			hold(ctx, rng, 500)
			return errors.Join(err, c.postgres.disk.free())
		}},
		{"backends terminated", func(ctx context.Context, c *chaos, _ *rand.Rand) error {
			_, _ = c.pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
			return nil // the server may be down, by another fault
		}},
		{"nats killed", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			err := c.nats.kill()
			hold(ctx, rng, 200)
			return errors.Join(err, c.nats.start(ctx))
		}},
		{"nats emptied", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			err := errors.Join(c.nats.kill(), c.nats.wipe())
			hold(ctx, rng, 200)
			return errors.Join(err, c.nats.start(ctx))
		}},
		{"nats disk full", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			if !c.nats.disk.mounted {
				return errNotHere
			}
			err := c.nats.disk.fill()
			hold(ctx, rng, 500)
			// JetStream turns itself off when it is out of space: the operator makes
			// room and starts it again.
			return errors.Join(err, c.nats.kill(), c.nats.disk.free(), c.nats.start(ctx))
		}},
		{"clock jumps", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			hours := rng.IntN(96) - 48
			_, _ = c.pool.Exec(ctx, `UPDATE chaos.clock SET jump = make_interval(hours => $1)`, hours)
			return nil // the server may be down, by another fault
		}},
		{"sandbox slow", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			c.slow.delay.Store(int64(time.Duration(100+rng.IntN(900)) * time.Millisecond))
			hold(ctx, rng, 600)
			c.slow.delay.Store(0)
			return nil
		}},
		{"sandbox broken", func(ctx context.Context, c *chaos, rng *rand.Rand) error {
			c.slow.broken.Store(true)
			hold(ctx, rng, 400)
			c.slow.broken.Store(false)
			return nil
		}},
		{"model answers 500", model(model500)},
		{"model drips", model(modelDrips)},
		{"model answers garbage", model(modelGarbage)},
		{"model answers NaN", model(modelNaN)},
	}
}

// errNotHere is returned by a fault that this machine does not let us make.
var errNotHere = errors.New("not possible on this machine")

// hold waits for up to so many milliseconds.
func hold(ctx context.Context, rng *rand.Rand, most int) {
	timer := time.NewTimer(time.Duration(rng.IntN(most)+1) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// modelMode is how a model server behaves.
type modelMode int32

const (
	modelGood modelMode = iota
	model500
	modelDrips
	modelGarbage
	modelNaN
)

// badModel is a model server that rehearses well, or as its mode says.
type badModel struct {
	url  string
	mode atomic.Int32
}

func newBadModel(t *testing.T, answer func(audit.Call) string) *badModel {
	t.Helper()
	m := &badModel{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest) // the asker died while it asked
			return
		}
		text := "yes"
		if calls := callsOf(body.Messages); len(calls) > 0 {
			text = "<execution_result>" + answer(calls[len(calls)-1]) + "</execution_result>"
		}
		m.respond(w, r, text)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	m.url = server.URL + "/v1"
	return m
}

func (m *badModel) respond(w http.ResponseWriter, r *http.Request, text string) {
	content, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text
	}
	logProb := "-0.1"
	switch modelMode(m.mode.Load()) {
	case modelGood:
	case model500:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case modelGarbage:
		fmt.Fprintf(w, "\x00\xff{\"choices\":[{%s", content)
		return
	case modelNaN:
		logProb = "NaN"
	case modelDrips:
		for range 8 {
			fmt.Fprint(w, " ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	fmt.Fprintf(w, `{"choices":[{"message":{"content":%s},"logprobs":{"content":[{"token":"a","logprob":%s}]}}]}`, content, logProb)
}

// slowWorld is a sandbox behind HTTP that is slow, or broken, when it is told to.
type slowWorld struct {
	file   string // that declares it as environment slow
	delay  atomic.Int64
	broken atomic.Bool
}

// slowAnswer is what its one tool answers.
const slowAnswer = `{"thing":"lamp","price":12}`

func newSlowWorld(t *testing.T) *slowWorld {
	t.Helper()
	s := &slowWorld{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.json" {
			fmt.Fprint(w, `{"openapi":"3.0.3","info":{"title":"slow","version":"1"},"paths":{"/things/{thing}":{"get":{"operationId":"get_thing",
				"parameters":[{"name":"thing","in":"path","required":true,"schema":{"type":"string"}}]}}}}`)
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(time.Duration(s.delay.Load())):
		}
		if s.broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, slowAnswer)
	}))
	t.Cleanup(server.Close)
	s.file = filepath.Join(t.TempDir(), "environments.yaml")
	writeFile(t, s.file, "environments:\n  slow:\n    adapter: openapi-http\n    url: "+server.URL+"\n    document: "+server.URL+
		"/openapi.json\n    session_header: X-Session\n    deterministic: true\n    tools:\n      get_thing: {effect: read}\n")
	return s
}
