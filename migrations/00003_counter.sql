-- What figures need beside rollups and cells: shares, strata of effects,
-- confidence and canaries, one line a counter because most pairs set few of them.

-- +goose Up

CREATE TABLE counter (
    run          integer  NOT NULL,
    environment  label    NOT NULL,
    version      label    NOT NULL,
    env_digest   bytea    NOT NULL,
    tool         label    NOT NULL,
    mode         text     NOT NULL,
    canary       text     NOT NULL,
    success      smallint NOT NULL,
    prompt_group label    NOT NULL,
    name         label    NOT NULL, -- audit.Counter
    n            bigint   NOT NULL, -- observations, Σ w, Σ w·x, Σ w·x²
    w            float8   NOT NULL, -- n and w are 0 where they are those of another counter
    x            float8   NOT NULL,
    xx           float8   NOT NULL,
    PRIMARY KEY (run, environment, version, env_digest, tool, mode, canary, success, prompt_group, name)
) WITH (fillfactor = 60);

-- The confidence that this run's attempt measured; another run's attempt at the
-- same pair may have measured another.
ALTER TABLE run_pair ADD COLUMN confidence double precision;

-- Terminal success of the whole episode, as in run_pair: two episodes may share
-- a pair and end differently.
ALTER TABLE episode
    ADD COLUMN executed smallint NOT NULL DEFAULT -1 CHECK (executed BETWEEN -1 AND 1),
    ADD COLUMN reported smallint NOT NULL DEFAULT -1 CHECK (reported BETWEEN -1 AND 1);

-- Cells count what counters do not: strata and shares move there.
CREATE TEMPORARY TABLE merged ON COMMIT DROP AS
    SELECT run, environment, version, env_digest, tool, mode, canary, success, prompt_group, actual, rehearsed, masked, severity, cascaded,
        sum(n)::bigint AS n, sum(weight) AS weight, sum(repeats)::bigint AS repeats, sum(unobservable)::bigint AS unobservable
    FROM cell GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14;
TRUNCATE cell;
ALTER TABLE cell DROP COLUMN stratum, DROP COLUMN approximate, DROP COLUMN oversize,
    ADD PRIMARY KEY (run, environment, version, env_digest, tool, mode, canary, success, prompt_group,
                     actual, rehearsed, masked, severity, cascaded);
INSERT INTO cell (run, environment, version, env_digest, tool, mode, canary, success, prompt_group, actual, rehearsed, masked, severity, cascaded,
    n, weight, repeats, unobservable)
SELECT * FROM merged;
