package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/ledger"
	"understudy/web"
	"understudy/web/access"
	"understudy/web/metric"
	"understudy/web/tracing"
)

// Main is the running program: `serve` runs one, and an end-to-end test starts
// its own on port 0. Run opens everything and returns when it serves, Wait
// blocks until ctx ends or a part fails, Close stops it all in order.
type Main struct {
	Config Config
	Logger *slog.Logger
	Out    io.Writer    // where the first token is printed; nil = nowhere
	Model  http.Handler // OpenAI's API over a model that is here; nil = none

	resources *resources
	listener  net.Listener
	server    *http.Server
	failed    chan error    // of the HTTP server; at most one
	closing   chan struct{} // closed when it begins to stop: live pages end
	metrics   *metric.Set
	tracer    *tracing.Tracer
	figuring  *figuring
	rewards   *rewards
	stopping  sync.Once
	stopErr   error
	after     func(time.Duration) <-chan time.Time // nil = time.After
}

// Run starts m. On an error nothing is left running.
func (m *Main) Run(ctx context.Context) error {
	m.Logger.InfoContext(ctx, "configuration", slog.Any("config", m.Config), slog.String("digest", m.Config.Digest().String()))
	var err error
	if m.listener, err = listen(ctx, m.Config.Listen, m.Config, m.Logger); err != nil {
		return err // first: it is the cheapest thing that can fail
	}
	if m.resources, err = openResources(ctx, m.Config, m.Logger); err != nil {
		return errors.Join(err, m.listener.Close())
	}
	l, err := m.open(ctx)
	if err != nil {
		m.tracer.Close(context.WithoutCancel(ctx))
		return errors.Join(err, m.listener.Close(), m.resources.close(ctx))
	}
	m.closing = make(chan struct{})
	m.metrics = metric.New(l)
	m.figuring = startFiguring(ctx, l, m.Logger)
	m.server = &http.Server{
		Handler: web.New(web.Config{ //nolint:contextcheck // a handler's context is its request's
			Version: versionText(), Ready: m.ready, Logger: m.Logger, Figures: l, Gates: l, Trainings: l,
			Guard: &access.Guard{Keys: l, Limits: access.Limits{
				Requests: m.Config.RequestRate, Failures: m.Config.SignInRate, Proxied: m.Config.BehindProxy,
			}}, Store: l, Model: m.Model, Closing: m.closing, Metrics: m.metrics, Tracer: m.tracer,
			Scorer: m.rewards.scorer, Environments: m.rewards.envs, Alarms: l,
			Decided: func(ctx context.Context, v *gate.Verdict) { announceRegression(ctx, m.Config, m.Logger, l, v) },
		}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute, // longer than the period of usual scrapers and proxies
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(m.Logger.Handler(), slog.LevelWarn),
	}
	m.failed = make(chan error, 1)
	go func() {
		if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
			m.failed <- err
		}
		close(m.failed)
	}()
	m.Logger.InfoContext(ctx, "serving", slog.String("url", m.URL()))
	return nil
}

// open makes what the handlers read and write.
func (m *Main) open(ctx context.Context) (*ledger.Ledger, error) {
	if err := recordConfiguration(ctx, m.resources.pool, m.Config); err != nil {
		return nil, err
	}
	l, err := ledger.New(m.resources.pool, ledger.Config{})
	if err != nil {
		return nil, err
	}
	if err := firstToken(ctx, l, m.Config.Listen, m.Out); err != nil {
		return nil, err
	}
	if m.tracer, err = startTracing(ctx, m.Config, m.Logger); err != nil {
		return nil, err
	}
	m.rewards, err = startRewards(ctx, m.resources, m.Config, l, m.Logger, m.tracer.Func())
	return l, err
}

// URL is where m serves.
func (m *Main) URL() string {
	return scheme(m.Config) + m.listener.Addr().String()
}

// Wait returns nil when ctx ends, or the error of the part that failed first.
func (m *Main) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-m.failed:
		return fmt.Errorf("serve: %w", err)
	case <-m.resources.failed():
		return &audit.Error{
			Code:    audit.CodeInfrastructure,
			Message: "the private PostgreSQL ended by itself",
			Hint:    "look into postgres.log in " + m.Config.DataDir + "; starting again recovers what was committed",
		}
	}
}

// Close lets requests finish for Config.StopTimeout, then ends everything. It
// may be called twice, and outlives ctx's cancellation.
func (m *Main) Close(ctx context.Context) error {
	m.stopping.Do(func() {
		if m.server == nil {
			return
		}
		m.drain()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.Config.StopTimeout)
		defer cancel()
		err := m.server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(fmt.Errorf("requests did not finish in %s: %w", m.Config.StopTimeout, err), m.server.Close())
		}
		serving := <-m.failed // closed when the serving goroutine is gone
		m.figuring.stop()
		m.stopErr = errors.Join(err, serving, m.rewards.close(), m.resources.close(ctx))
		m.tracer.Close(ctx)
		m.Logger.InfoContext(ctx, "stopped")
	})
	return m.stopErr
}

// drain says that m is not ready, ends live pages, and leaves whoever spreads the
// load the time to notice.
func (m *Main) drain() {
	close(m.closing)
	if m.Config.DrainDelay > 0 {
		after := m.after
		if after == nil {
			after = time.After
		}
		<-after(m.Config.DrainDelay) // a second signal ends the program
	}
}

// errDraining is why a stopping service is not ready.
var errDraining = errors.New("the service stops")

// ready returns nil while the ledger answers, the transport is connected, and m
// was not told to stop.
func (m *Main) ready(ctx context.Context) error {
	select {
	case <-m.closing:
		return errDraining
	default:
	}
	return m.resources.ready(ctx)
}

// startTracing opens the way to the collector that the settings name, if any.
func startTracing(ctx context.Context, cfg Config, log *slog.Logger) (*tracing.Tracer, error) {
	return tracing.Start(ctx, tracing.Config{Endpoint: string(cfg.OTLPEndpoint), Version: versionText(), Logger: log})
}
