-- +goose Up
-- The verdicts of one gate policy are a history; its digest tells which belong together.
ALTER TABLE gate_verdict ADD COLUMN policy_digest text NOT NULL DEFAULT '';
CREATE INDEX gate_verdict_history ON gate_verdict (policy_digest, decided_at DESC);
CREATE INDEX gate_verdict_time ON gate_verdict (decided_at DESC);
