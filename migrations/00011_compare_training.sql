-- What comparing runs and watching training need.

-- +goose Up

-- Prompt groups in an order that is random and yet the same in every run: the
-- first episodes of two runs in this order share their prompt groups.
CREATE INDEX episode_in_sample_order ON episode (run, md5(prompt_group), id);

-- One training: one arm of an experiment with one seed.
CREATE TABLE training (
    id           integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    experiment   label       NOT NULL CHECK (experiment <> ''), -- its arms are shown side by side
    arm          label       NOT NULL CHECK (arm <> ''),
    seed         bigint      NOT NULL,
    policy       label       NOT NULL DEFAULT '', -- whose checkpoints it writes
    settings     bytea       NOT NULL DEFAULT '', -- the recipe, JSON
    state        text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'complete', 'failed')),
    reason       bytea       NOT NULL DEFAULT '', -- why it failed
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz,
    UNIQUE (experiment, arm, seed),
    CHECK ((state = 'running') = (finished_at IS NULL))
);

-- One number of one step. NULL = it was not finite, which is a finding of its own.
CREATE TABLE training_metric (
    training integer     NOT NULL REFERENCES training ON DELETE CASCADE,
    name     label       NOT NULL CHECK (name <> ''),
    role     text        NOT NULL CHECK (role IN ('', 'act', 'rehearse')), -- '' = of the whole policy
    step     bigint      NOT NULL CHECK (step >= 0),
    value    float8      CHECK (value <> 'NaN' AND value < 'Infinity' AND value > '-Infinity'),
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (training, name, role, step)
);

-- One policy on a version of an environment beside the version that it knows.
CREATE TABLE version_figures (
    run         integer     NOT NULL REFERENCES run ON DELETE CASCADE, -- holds the pairs on that version
    base        label       NOT NULL, -- environment reference that the policy is taken to know
    environment label       NOT NULL,
    version     label       NOT NULL,
    figures     bytea       NOT NULL, -- audit.VersionFigures, JSON
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, environment, version)
);
