// Package tracing sends spans of requests and audits to an OpenTelemetry
// collector. It is an option: a nil Tracer traces nothing and costs nothing.
//
// A trace travels as a W3C traceparent: in from HTTP requests, NATS requests and
// the environment's TRACEPARENT, through the ledger's outbox and the header of a
// job's message to the worker, and out to model servers. Spans hold routes, run-time
// and error codes, never what was audited.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"understudy/audit"
)

// Config says where spans go.
type Config struct {
	Endpoint string // of a collector: OTLP over HTTP, such as http://127.0.0.1:4318; "" = nowhere
	Version  string // of the program
	Logger   *slog.Logger
}

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// Start opens the way to the collector, or returns nil without an endpoint. Spans
// that cannot be delivered are dropped: tracing holds nothing up.
func Start(ctx context.Context, cfg Config) (*Tracer, error) {
	if cfg.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil Tracer is one that traces nothing
	}
	at, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, errors.New("the address of the collector cannot be read")
	}
	if at.Path == "" || at.Path == "/" {
		at.Path = "/v1/traces" // the signal's own path, as the specification has it
	}
	// The library reports through a hook of the process; its text has the address.
	ctx = context.WithoutCancel(ctx)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {
		cfg.Logger.WarnContext(ctx, "spans were not delivered", slog.String("collector", at.Host))
	}))
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(at.String()))
	if err != nil {
		return nil, fmt.Errorf("open the trace exporter: %w", err)
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter),
		sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())), // whoever began a trace decides
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "understudy"), attribute.String("service.version", cfg.Version))),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("understudy")}, nil
}

// Close sends what is left.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	_ = t.provider.Shutdown(ctx) // what was not delivered is logged where it is noticed
}

// Func begins spans for the queue; nil where nothing is traced.
func (t *Tracer) Func() audit.TraceFunc {
	if t == nil {
		return nil
	}
	return t.begin
}

func (t *Tracer) begin(ctx context.Context, name, parent string) (context.Context, func(error)) {
	if parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{audit.TraceHeader: parent})
	}
	ctx, span := t.tracer.Start(ctx, name)
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return audit.WithTrace(ctx, carrier[audit.TraceHeader]), func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, string(audit.ErrorCode(err))) // its text may hold anything
		}
		span.End()
	}
}

// Requests makes a span of each request, under the caller's.
func (t *Tracer) Requests(c *gin.Context) {
	if t == nil || c.FullPath() == "/healthz" || c.FullPath() == "/readyz" || c.FullPath() == "/metrics" {
		return
	}
	route := c.FullPath()
	if route == "" {
		route = "none"
	}
	ctx, end := t.begin(c.Request.Context(), c.Request.Method+" "+route, c.GetHeader(audit.TraceHeader))
	c.Request = c.Request.WithContext(ctx)
	c.Next()
	status := c.Writer.Status()
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("http.response.status_code", status))
	const serverError = 500
	if status >= serverError {
		end(&audit.Error{Code: audit.CodeInternal})
		return
	}
	end(nil)
}
