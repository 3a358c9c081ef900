package audit

import "context"

// TraceHeader carries a trace over HTTP and NATS alike (W3C Trace Context).
const TraceHeader = "traceparent"

// traceLength is that of a version 00 traceparent.
const traceLength = 55

type traceKey struct{}

// WithTrace notes the W3C traceparent of the work that ctx is for, so that what is
// queued under it joins the trace wherever it is done. What is none is left out.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	if len(traceparent) != traceLength {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// TraceOf is the traceparent of ctx; "" = nobody traces.
func TraceOf(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

// TraceFunc begins a span of work that another process may have caused: parent is
// its traceparent or "". The span ends with the returned function. A nil TraceFunc
// traces nothing and costs nothing.
type TraceFunc func(ctx context.Context, name, parent string) (context.Context, func(error))

// Begin is f, or nothing where f is nil.
func (f TraceFunc) Begin(ctx context.Context, name, parent string) (context.Context, func(error)) {
	if f == nil {
		return ctx, func(error) {}
	}
	return f(ctx, name, parent)
}
