package tracing_test

import (
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"understudy/audit"
	"understudy/web/tracing"
)

// gathered is a collector that keeps what it is sent.
type gathered struct {
	mu    sync.Mutex
	spans map[string]*spans.Span
}

func (g *gathered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	text, err := io.ReadAll(body)
	var req collector.ExportTraceServiceRequest
	if err := errors.Join(err, proto.Unmarshal(text, &req)); err != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				g.spans[span.GetName()] = span
			}
		}
	}
}

// TestOneTraceFromRequestToWorker follows a caller's trace from an HTTP request
// over what it queues to the work, and on to whoever that asks.
func TestOneTraceFromRequestToWorker(t *testing.T) {
	t.Parallel()
	g := &gathered{spans: map[string]*spans.Span{}}
	server := httptest.NewServer(g)
	defer server.Close()
	tracer, err := tracing.Start(t.Context(), tracing.Config{Endpoint: server.URL, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(tracer.Requests)
	queued, asked := "", ""
	engine.POST("/v1/work/:id", func(c *gin.Context) {
		queued = audit.TraceOf(c.Request.Context()) // what the outbox keeps
		ctx, end := tracer.Func().Begin(t.Context(), "audit episode", queued)
		asked = audit.TraceOf(ctx)
		end(&audit.Error{Code: audit.CodeInvalid, Message: "geheim"})
		c.Status(http.StatusNoContent)
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/work/7", http.NoBody)
	r.Header.Set("Traceparent", "00-"+trace+"-"+caller+"-01")
	engine.ServeHTTP(httptest.NewRecorder(), r)
	tracer.Close(t.Context())

	request, work := g.spans["POST /v1/work/:id"], g.spans["audit episode"]
	if request == nil || work == nil {
		t.Fatalf("the collector has %v", g.spans)
	}
	if hex.EncodeToString(request.GetTraceId()) != trace || hex.EncodeToString(request.GetParentSpanId()) != caller {
		t.Errorf("the request's span is in trace %s under %s", hex.EncodeToString(request.GetTraceId()), hex.EncodeToString(request.GetParentSpanId()))
	}
	if hex.EncodeToString(work.GetTraceId()) != trace || hex.EncodeToString(work.GetParentSpanId()) != hex.EncodeToString(request.GetSpanId()) {
		t.Errorf("the work's span is in trace %s under %s, want under the request's", hex.EncodeToString(work.GetTraceId()), hex.EncodeToString(work.GetParentSpanId()))
	}
	if !strings.Contains(queued, hex.EncodeToString(request.GetSpanId())) || !strings.Contains(asked, hex.EncodeToString(work.GetSpanId())) {
		t.Errorf("queued under %q, asked under %q", queued, asked)
	}
	if strings.Contains(work.String(), "geheim") {
		t.Errorf("a span holds an error's text: %s", work)
	}
}

// TestOffIsNothing: without an endpoint there is no tracer, no span and no header.
func TestOffIsNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	tracer, err := tracing.Start(t.Context(), tracing.Config{})
	if tracer != nil || err != nil {
		t.Fatalf("got %v, %v", tracer, err)
	}
	ctx, end := tracer.Func().Begin(t.Context(), "x", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	end(nil)
	if ctx != t.Context() || audit.TraceOf(ctx) != "" {
		t.Error("what is not traced has another context")
	}
	allocations := testing.AllocsPerRun(100, func() {
		_, end := tracer.Func().Begin(ctx, "x", "")
		end(nil)
	})
	if allocations > 0 {
		t.Errorf("tracing that is off allocates %v times", allocations)
	}
	tracer.Close(t.Context())
}
