-- +goose Up
-- What an auditor relies on, tried on each mounted environment when it was
-- connected. The last row of a ref is what holds now; the older ones are its history.
CREATE TABLE environment_contract (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ref        text        NOT NULL,
    digest     text        NOT NULL, -- of the environment: rules, schemas and declaration
    adapter    text        NOT NULL,
    failed     integer     NOT NULL CHECK (failed >= 0), -- clauses
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    document   text        NOT NULL -- JSON
);
CREATE INDEX environment_contract_ref ON environment_contract (ref, id DESC);
