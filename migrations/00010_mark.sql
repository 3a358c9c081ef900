-- What people said about calls, and the lists that the dashboard reads.

-- +goose Up

-- A mark takes calls out of the figures for a reason: noise (they differ only
-- at a path that nobody promises), known_issue (until it expires) or
-- reference_wrong (this one call's real answer is wrong).
CREATE TABLE mark (
    id          integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run         integer     NOT NULL, -- where it was made, on which call
    key         digest      NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('noise', 'known_issue', 'reference_wrong')),
    environment label       NOT NULL,
    tool        label       NOT NULL,
    pattern     label       NOT NULL, -- of the difference; '' = the outcome itself
    difference  label       NOT NULL, -- its kind; '' = any
    reason      label       NOT NULL CHECK (reason <> ''),
    author      label       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    revoked_at  timestamptz
);
CREATE INDEX mark_live ON mark (environment, tool) WHERE revoked_at IS NULL;

-- Up to when a mark has looked at a run's calls.
CREATE TABLE mark_run (
    mark    integer     NOT NULL REFERENCES mark ON DELETE CASCADE,
    run     integer     NOT NULL,
    through timestamptz NOT NULL,
    PRIMARY KEY (mark, run)
);

-- Calls that a mark has taken out of a run's figures: run_pair.masked says why,
-- pair.masked what it was.
CREATE TABLE excused (
    run  integer NOT NULL,
    key  digest  NOT NULL,
    mark integer NOT NULL REFERENCES mark ON DELETE CASCADE,
    PRIMARY KEY (run, key)
);

CREATE INDEX run_pair_by_tool ON run_pair (tool, severity DESC, key);
