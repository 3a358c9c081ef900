-- Effective configurations, by digest: results name the one they were made under.

-- +goose Up
CREATE TABLE configuration (
    digest     bytea       PRIMARY KEY CHECK (octet_length(digest) = 32),
    version    text        NOT NULL, -- of the program
    effective  jsonb       NOT NULL, -- secrets redacted
    first_used timestamptz NOT NULL DEFAULT now()
);
