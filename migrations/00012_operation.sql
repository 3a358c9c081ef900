-- What the pages about operation look things up by.

-- +goose Up

CREATE INDEX dead_letter_waiting ON dead_letter (buried_at DESC, run DESC, episode DESC, attempt DESC) WHERE revived_at IS NULL;
CREATE INDEX audit_conflict_time ON audit_conflict (seen_at DESC);
CREATE INDEX training_metric_broken ON training_metric (training, name, step) WHERE value IS NULL;

-- What a model server was found able to do.
CREATE TABLE endpoint (
    url       label       NOT NULL CHECK (url <> ''), -- without user, password and query
    model     label       NOT NULL,
    answers   jsonb       NOT NULL, -- array of [feature, yes or no, what its absence costs]
    probed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (url, model)
);
