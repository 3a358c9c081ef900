-- What the service's face needs: who may see it, and figures that a page can
-- read without adding up a run.

-- +goose Up

-- Bearer tokens; a token is 256 random bits, of which only the hash is kept.
CREATE TABLE token (
    id         integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       label       NOT NULL CHECK (name <> ''),
    role       text        NOT NULL CHECK (role IN ('reader', 'auditor', 'admin')),
    hash       digest      NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
CREATE UNIQUE INDEX token_by_name ON token (name) WHERE revoked_at IS NULL;

-- Browsers that signed in with a token; revoking it ends them.
CREATE TABLE session (
    hash       digest      PRIMARY KEY, -- of the cookie's value
    token      integer     NOT NULL REFERENCES token ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);

-- How far a run is: moved by every commit in its own transaction, in one of
-- sixteen rows, so that commits of one run rarely wait for each other.
CREATE TABLE progress (
    run    integer  NOT NULL,
    shard  smallint NOT NULL CHECK (shard BETWEEN 0 AND 15),
    moves  bigint   NOT NULL, -- transactions that moved a counter of the run
    pairs  bigint   NOT NULL,
    masked bigint   NOT NULL,
    PRIMARY KEY (run, shard)
) WITH (fillfactor = 50);
INSERT INTO progress (run, shard, moves, pairs, masked)
    SELECT run, 0, 1, count(*), count(*) FILTER (WHERE masked <> '') FROM run_pair GROUP BY run;

-- A run's figures as they were when its counters had moved so often: a cache,
-- which verify computes again.
CREATE TABLE summary (
    run         integer     PRIMARY KEY REFERENCES run ON DELETE CASCADE,
    moves       bigint      NOT NULL,
    computed_at timestamptz NOT NULL DEFAULT now(),
    took        interval    NOT NULL
);
CREATE TABLE summary_cell (
    run         integer NOT NULL REFERENCES summary ON DELETE CASCADE,
    version     label   NOT NULL, -- '' = all
    mode        text    NOT NULL, -- '' = all
    split       text    NOT NULL,
    environment label   NOT NULL, -- '' = all
    tool        label   NOT NULL, -- '*' = all, '' = whole episodes
    figures     bytea   NOT NULL, -- JSON
    PRIMARY KEY (run, version, mode, split, environment, tool)
);
