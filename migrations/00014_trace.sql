-- What was traced when a job was queued, so that its audit joins the trace.

-- +goose Up
ALTER TABLE outbox ADD COLUMN trace text CHECK (octet_length(trace) <= 55); -- a W3C traceparent; NULL = nobody traces
