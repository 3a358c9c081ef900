package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"understudy/web/metric"
)

// observation shows how a worker does, on an address of its own: no tokens are
// asked there, and nothing that was audited is shown.
type observation struct {
	metrics *metric.Set // nil: nobody asked for it
	server  *http.Server
	ended   chan error
}

// startObservation serves /metrics, /healthz and /readyz until close.
func startObservation(ctx context.Context, inv *invocation, address string, r *resources) (*observation, error) {
	o := &observation{}
	if address == "" {
		return o, nil
	}
	listener, err := listen(ctx, address, inv.config, inv.log)
	if err != nil {
		return nil, err
	}
	o.metrics = metric.New(nil) // the service shows the ledger's backlog
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.metrics.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, req *http.Request) {
		if ctx.Err() != nil || r.ready(req.Context()) != nil { //nolint:contextcheck // a request is not the program
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	o.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	o.ended = make(chan error, 1)
	go func() { o.ended <- o.server.Serve(listener) }()
	inv.log.InfoContext(ctx, "showing metrics", slog.String("url", scheme(inv.config)+listener.Addr().String()+"/metrics"))
	return o, nil
}

func (o *observation) close() error {
	if o.server == nil {
		return nil
	}
	err := o.server.Close()
	if serving := <-o.ended; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}
