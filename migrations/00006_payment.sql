-- What trainers asked for and were paid. A payee is a place of one attempt of a
-- run's policy at one training step: its id is the digest of that, so that it is
-- paid once, whoever asks and however often. A row of score never changes.

-- +goose Up

CREATE TABLE score_batch (
    id          digest           PRIMARY KEY, -- of what was asked
    run         integer          NOT NULL,
    policy      label            NOT NULL,
    checkpoint  bigint           NOT NULL,
    body        bytea,                        -- the request, until every output has its answer
    payees      bytea[]          NOT NULL,    -- of the outputs, in order
    content     bytea[]          NOT NULL,
    draw_key    bytea[]          NOT NULL,    -- of the outputs that could be audited: what was
    draw_pi     double precision[] NOT NULL,  -- decided about them before anything was executed
    draw_u      double precision[] NOT NULL,
    granted     double precision NOT NULL DEFAULT 0, -- sandbox seconds in hand
    accepted_at timestamptz      NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CHECK ((finished_at IS NULL) = (body IS NOT NULL))
);
CREATE INDEX score_batch_by_run ON score_batch (run);

CREATE TABLE score (
    id            digest           NOT NULL, -- of the payee
    run           integer          NOT NULL,
    batch         digest           NOT NULL,
    policy        label            NOT NULL,
    checkpoint    bigint           NOT NULL,
    content       digest           NOT NULL, -- of the output
    key           bytea,                     -- of the pair; NULL = nothing was audited
    tool          label            NOT NULL,
    status        text             NOT NULL CHECK (status IN ('scored', 'masked')),
    reason        label            NOT NULL,
    actual        label            NOT NULL, -- outcomes; '' = none
    rehearsed     label            NOT NULL,
    phi           double precision CHECK (phi >= 0 AND phi <= 1),
    weight        double precision NOT NULL CHECK (weight >= 0 AND weight <= 10),
    inclusion     double precision NOT NULL CHECK (inclusion >= 0 AND inclusion <= 1),
    executed      smallint         NOT NULL CHECK (executed BETWEEN -1 AND 1),
    reported      smallint         NOT NULL CHECK (reported BETWEEN -1 AND 1),
    reward        bytea            NOT NULL, -- JSON, as it was answered
    paid_at       timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (id),
    CHECK ((status = 'scored') = (phi IS NOT NULL)),
    CHECK ((status = 'masked') = (reason <> '')),
    CHECK (status = 'masked' OR (key IS NOT NULL AND weight > 0))
);
CREATE INDEX score_by_step ON score (run, policy, checkpoint);

-- Sandbox seconds that a training step has used or holds in hand. What a killed
-- program held stays counted: the budget is never exceeded.
CREATE TABLE score_budget (
    run        integer          NOT NULL,
    policy     label            NOT NULL,
    checkpoint bigint           NOT NULL,
    seconds    double precision NOT NULL CHECK (seconds >= 0),
    PRIMARY KEY (run, policy, checkpoint)
) WITH (fillfactor = 50);

-- The baselines of a training step: frozen when they are first asked for.
CREATE TABLE baseline (
    run       integer     NOT NULL,
    policy    label       NOT NULL,
    version   bigint      NOT NULL, -- the training step
    means     bytea       NOT NULL, -- audit.Baselines, JSON
    steps     bytea       NOT NULL, -- the training steps since the version before, summed up: audit.TrainingStep, JSON
    frozen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, policy, version)
);

-- Findings about training runs.
CREATE TABLE alarm (
    id        bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run       integer          NOT NULL,
    policy    label            NOT NULL,
    kind      label            NOT NULL,
    step      bigint           NOT NULL,
    value     double precision NOT NULL,
    reference double precision NOT NULL,
    height    double precision NOT NULL,
    message   text             NOT NULL,
    raised_at timestamptz      NOT NULL DEFAULT now(),
    UNIQUE (run, policy, kind, step)
);

-- The stream of scores beside jobs and results.
ALTER TABLE outbox DROP CONSTRAINT outbox_topic_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_topic_check CHECK (topic IN ('job', 'result', 'score'));
