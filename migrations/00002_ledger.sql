-- The ledger: what was audited, once. Texts are labels (valid UTF-8, no NUL, at
-- most 200 bytes); whatever came from outside lies in bytea and survives as it
-- was. Tables PARTITION BY LIST (run) get one partition a run, so that a run is
-- dropped, not deleted. Results (pair) belong to no run: run_pair is membership.

-- +goose Up

CREATE DOMAIN digest AS bytea CHECK (octet_length(VALUE) = 32);
CREATE DOMAIN label AS text CHECK (octet_length(VALUE) <= 200);

CREATE TABLE run (
    id           integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         label       NOT NULL UNIQUE CHECK (name <> ''),
    policy       label       NOT NULL DEFAULT '',
    checkpoint   bigint      NOT NULL DEFAULT 0,
    state        text        NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'complete', 'dropping')),
    settings     bytea       NOT NULL DEFAULT '', -- effective configuration, JSON
    created_at   timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz,
    CHECK ((state = 'complete') <= (completed_at IS NOT NULL))
);

CREATE TABLE run_tag (
    run integer NOT NULL REFERENCES run ON DELETE CASCADE,
    tag label   NOT NULL CHECK (tag <> ''),
    PRIMARY KEY (run, tag)
);
CREATE INDEX run_tag_by_tag ON run_tag (tag, run DESC);

-- A gate's decision about a run; the document recomputes it.
CREATE TABLE gate_verdict (
    run        integer     NOT NULL REFERENCES run ON DELETE CASCADE,
    decided_at timestamptz NOT NULL DEFAULT now(),
    verdict    text        NOT NULL CHECK (verdict IN ('PASS', 'FAIL', 'INCONCLUSIVE', 'ERROR')),
    document   bytea       NOT NULL,
    PRIMARY KEY (run, decided_at)
);

-- A checkpoint counts only once its writer said that it is whole.
CREATE TABLE checkpoint (
    policy     label       NOT NULL,
    step       bigint      NOT NULL,
    digest     digest,
    complete   boolean     NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (policy, step)
);

-- One episode of a run: the unit of work. Its id is the digest of its content.
CREATE TABLE episode (
    run          integer     NOT NULL REFERENCES run,
    id           digest      NOT NULL,
    name         label       NOT NULL,
    prompt_group label       NOT NULL,
    policy       label       NOT NULL,
    checkpoint   bigint      NOT NULL DEFAULT 0,
    wire_api     label       NOT NULL DEFAULT '',
    environment  label       NOT NULL,
    mode         text        NOT NULL CHECK (mode IN ('forced', 'open', 'probe', 'canary')),
    samples      integer     NOT NULL CHECK (samples >= 0), -- actions that were asked to be audited
    body         bytea,                                     -- NULL = committed without a job
    state        text        NOT NULL CHECK (state IN ('open', 'done', 'dead', 'undetermined')),
    attempt      integer     NOT NULL DEFAULT 1 CHECK (attempt >= 1),
    results      integer     NOT NULL DEFAULT 0 CHECK (results >= 0), -- actions that have a result
    duplicates   integer     NOT NULL DEFAULT 0,            -- finished again, absorbed
    late         integer     NOT NULL DEFAULT 0,            -- finished after it was given up or sent again
    message      label,                                     -- id of the message that carries the job
    seq          bigint,                                    -- where the stream stored it
    created_at   timestamptz NOT NULL DEFAULT now(),
    sent_at      timestamptz,
    finished_at  timestamptz,
    PRIMARY KEY (run, id),
    CHECK ((state = 'open') = (finished_at IS NULL)),
    CHECK (state <> 'open' OR body IS NOT NULL)
) WITH (fillfactor = 80);
CREATE INDEX episode_open ON episode (sent_at, run, id) WHERE state = 'open';
CREATE INDEX episode_by_name ON episode (run, name, id);

-- Raw bytes, content-addressed within a run: dropping the run drops them.
CREATE TABLE body (
    digest    digest  NOT NULL, -- of the whole content, also where it was cut
    run       integer NOT NULL,
    size      bigint  NOT NULL, -- of the whole content
    truncated boolean NOT NULL,
    content   bytea   NOT NULL,
    PRIMARY KEY (digest, run),
    CHECK (truncated = (size > octet_length(content)))
) PARTITION BY LIST (run);

-- One audited place of an episode and the pair that it got: the first result counts.
CREATE TABLE action (
    run     integer  NOT NULL,
    episode digest   NOT NULL,
    step    integer  NOT NULL,
    probe   integer  NOT NULL,
    sample  integer  NOT NULL,
    attempt integer  NOT NULL,
    ordinal integer  NOT NULL, -- among pairs that are otherwise at the same place
    key     digest   NOT NULL,
    result  digest   NOT NULL,
    call_id label    NOT NULL,
    message integer  NOT NULL,
    repeats integer  NOT NULL,
    PRIMARY KEY (episode, step, probe, sample, attempt, ordinal, run)
) PARTITION BY LIST (run);
CREATE INDEX action_by_key ON action (key);

-- A result: one key has one, unless something was not deterministic (audit_conflict).
CREATE TABLE pair (
    key           digest   NOT NULL,
    result        digest   NOT NULL,
    policy        label    NOT NULL,
    checkpoint    bigint   NOT NULL,
    environment   label    NOT NULL,
    version       label    NOT NULL,
    env_digest    bytea    NOT NULL,
    mode          text     NOT NULL CHECK (mode IN ('forced', 'open', 'probe', 'canary')),
    canary        text     NOT NULL CHECK (canary IN ('', 'schema', 'domain')),
    tool          label    NOT NULL,
    effect        label    NOT NULL,
    masked        label    NOT NULL, -- '' = scored
    outage        boolean  NOT NULL, -- masked for a reason that another attempt may not meet
    actual        label    NOT NULL, -- outcome of the sandbox: ok, ok_empty, error:FAMILY, '' = none
    rehearsed     label    NOT NULL,
    severity      smallint NOT NULL CHECK (severity BETWEEN 0 AND 5),
    false_success boolean  NOT NULL,
    phantom_write boolean  NOT NULL,
    silent_write  boolean  NOT NULL,
    cascaded      boolean  NOT NULL,
    fork          boolean  NOT NULL,
    cells         integer,           -- state cells that really changed
    before        bytea, -- digest of the state
    after         bytea,
    rules         bytea    NOT NULL,
    arguments     bytea, -- digests of bodies
    prompt        bytea,
    rehearsal     bytea,
    state_block   bytea,
    recorded      bytea,
    observation   bytea,
    twin          bytea,
    doc           bytea    NOT NULL, -- the pair without its bodies, JSON; result is its digest
    extra         bytea    NOT NULL, -- what may differ between equal results: cost, log-probabilities
    PRIMARY KEY (key, result),
    CHECK (masked <> '' OR actual <> '')
);

-- Membership: the pairs of a run, each key once; rollups move on its inserts.
CREATE TABLE run_pair (
    key          digest           NOT NULL,
    run          integer          NOT NULL,
    result       digest           NOT NULL,
    episode      digest           NOT NULL,
    step         integer          NOT NULL,
    prompt_group label            NOT NULL,
    executed     smallint         NOT NULL CHECK (executed BETWEEN -1 AND 1), -- terminal success in the sandbox; -1 = not known
    reported     smallint         NOT NULL CHECK (reported BETWEEN -1 AND 1), -- the same as the episode's source saw it
    weight       double precision NOT NULL CHECK (weight > 0 AND weight <= 10),
    inclusion    double precision NOT NULL,
    repeats      integer          NOT NULL, -- further calls that the pair stands for
    tool         label            NOT NULL,
    severity     smallint         NOT NULL,
    masked       label            NOT NULL,
    committed_at timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (key, run)
) PARTITION BY LIST (run);
CREATE INDEX run_pair_worst ON run_pair (severity DESC, key) WHERE masked = '' AND severity >= 3;

-- Counters of a run per prompt group: a cache that verify recounts.
-- No foreign key on the tables that every commit writes: each would share-lock
-- the one row of the run. verify looks for orphans instead.
CREATE TABLE rollup (
    run          integer NOT NULL,
    environment  label   NOT NULL,
    version      label   NOT NULL,
    env_digest   bytea   NOT NULL,
    tool         label   NOT NULL,
    mode         text    NOT NULL,
    canary       text    NOT NULL,
    success      smallint NOT NULL,
    prompt_group label   NOT NULL,
    pairs        bigint  NOT NULL,
    -- per figure: observations, Σ w, Σ w·x, Σ w·x² (audit.FigureNames)
    validity_n bigint NOT NULL, validity_w float8 NOT NULL, validity_x float8 NOT NULL, validity_xx float8 NOT NULL,
    fsr_n bigint NOT NULL, fsr_w float8 NOT NULL, fsr_x float8 NOT NULL, fsr_xx float8 NOT NULL,
    phantom_success_n bigint NOT NULL, phantom_success_w float8 NOT NULL, phantom_success_x float8 NOT NULL, phantom_success_xx float8 NOT NULL,
    false_error_n bigint NOT NULL, false_error_w float8 NOT NULL, false_error_x float8 NOT NULL, false_error_xx float8 NOT NULL,
    error_family_n bigint NOT NULL, error_family_w float8 NOT NULL, error_family_x float8 NOT NULL, error_family_xx float8 NOT NULL,
    outcome_n bigint NOT NULL, outcome_w float8 NOT NULL, outcome_x float8 NOT NULL, outcome_xx float8 NOT NULL,
    shape_n bigint NOT NULL, shape_w float8 NOT NULL, shape_x float8 NOT NULL, shape_xx float8 NOT NULL,
    leaf_f1_n bigint NOT NULL, leaf_f1_w float8 NOT NULL, leaf_f1_x float8 NOT NULL, leaf_f1_xx float8 NOT NULL,
    exact_n bigint NOT NULL, exact_w float8 NOT NULL, exact_x float8 NOT NULL, exact_xx float8 NOT NULL,
    id_integrity_n bigint NOT NULL, id_integrity_w float8 NOT NULL, id_integrity_x float8 NOT NULL, id_integrity_xx float8 NOT NULL,
    effect_precision_n bigint NOT NULL, effect_precision_w float8 NOT NULL, effect_precision_x float8 NOT NULL, effect_precision_xx float8 NOT NULL,
    effect_recall_n bigint NOT NULL, effect_recall_w float8 NOT NULL, effect_recall_x float8 NOT NULL, effect_recall_xx float8 NOT NULL,
    effect_f1_n bigint NOT NULL, effect_f1_w float8 NOT NULL, effect_f1_x float8 NOT NULL, effect_f1_xx float8 NOT NULL,
    phantom_write_n bigint NOT NULL, phantom_write_w float8 NOT NULL, phantom_write_x float8 NOT NULL, phantom_write_xx float8 NOT NULL,
    silent_write_n bigint NOT NULL, silent_write_w float8 NOT NULL, silent_write_x float8 NOT NULL, silent_write_xx float8 NOT NULL,
    material_n bigint NOT NULL, material_w float8 NOT NULL, material_x float8 NOT NULL, material_xx float8 NOT NULL,
    phi_n bigint NOT NULL, phi_w float8 NOT NULL, phi_x float8 NOT NULL, phi_xx float8 NOT NULL,
    PRIMARY KEY (run, environment, version, env_digest, tool, mode, canary, success, prompt_group)
) WITH (fillfactor = 60);

-- The confusion matrix, the severity ladder, masks and strata of a run per prompt group.
CREATE TABLE cell (
    run          integer  NOT NULL,
    environment  label    NOT NULL,
    version      label    NOT NULL,
    env_digest   bytea    NOT NULL,
    tool         label    NOT NULL,
    mode         text     NOT NULL,
    canary       text     NOT NULL,
    success      smallint NOT NULL,
    prompt_group label    NOT NULL,
    actual       label    NOT NULL,
    rehearsed    label    NOT NULL,
    masked       label    NOT NULL,
    severity     smallint NOT NULL,
    cascaded     boolean  NOT NULL,
    stratum      smallint NOT NULL CHECK (stratum BETWEEN -1 AND 3), -- |Δ| = 0, 1-2, 3-6, 7+; -1 = not known
    n            bigint   NOT NULL,
    weight       float8   NOT NULL,
    repeats      bigint   NOT NULL, -- further calls that the pairs stand for
    approximate  bigint   NOT NULL,
    oversize     bigint   NOT NULL,
    unobservable bigint   NOT NULL,
    PRIMARY KEY (run, environment, version, env_digest, tool, mode, canary, success, prompt_group,
                 actual, rehearsed, masked, severity, cascaded, stratum)
) WITH (fillfactor = 60);

-- How a run's pairs differ, by path pattern, in the answer, in the effect or in
-- the outcome itself, with five samples each.
CREATE TABLE leaf (
    id          bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run         integer  NOT NULL,
    environment label    NOT NULL,
    version     label    NOT NULL,
    tool        label    NOT NULL,
    mode        text     NOT NULL,
    part        text     NOT NULL CHECK (part IN ('answer', 'effect', 'outcome')),
    pattern     label    NOT NULL,
    kind        label    NOT NULL,
    class       label    NOT NULL,
    pairs       bigint   NOT NULL, -- pairs that differ so
    leaves      bigint   NOT NULL, -- differing leaves
    weight      float8   NOT NULL,
    severity    smallint NOT NULL, -- the gravest of the pairs
    UNIQUE (run, tool, part, pattern, kind, class, mode, environment, version)
) WITH (fillfactor = 60);

CREATE TABLE leaf_sample (
    leaf      bigint   NOT NULL REFERENCES leaf ON DELETE CASCADE,
    slot      smallint NOT NULL CHECK (slot BETWEEN 1 AND 5),
    key       digest   NOT NULL,
    severity  smallint NOT NULL,
    pointer   bytea    NOT NULL,
    rehearsed bytea, -- JSON text, cut; NULL = absent
    actual    bytea,
    PRIMARY KEY (leaf, slot)
);

CREATE VIEW effect AS SELECT * FROM leaf WHERE part = 'effect';

-- The same key with another result: a finding, never a duplicate.
CREATE TABLE audit_conflict (
    run     integer     NOT NULL REFERENCES run,
    key     digest      NOT NULL,
    result  digest      NOT NULL, -- the one that arrived
    stored  digest      NOT NULL, -- the one that was there
    episode digest      NOT NULL,
    step    integer     NOT NULL,
    kind    text        NOT NULL CHECK (kind IN ('result', 'place')), -- place: another key where one had a result
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, key, result, stored)
);

CREATE TABLE dead_letter (
    run        integer     NOT NULL,
    episode    digest      NOT NULL,
    attempt    integer     NOT NULL,
    fault      text        NOT NULL CHECK (fault IN ('transient', 'permanent', 'undetermined')),
    reason     bytea       NOT NULL,
    deliveries integer     NOT NULL,
    buried_at  timestamptz NOT NULL DEFAULT now(),
    revived_at timestamptz, -- a late result arrived, or an operator sent it again
    PRIMARY KEY (run, episode, attempt),
    FOREIGN KEY (run, episode) REFERENCES episode
);

-- What is to be published; claimed with SKIP LOCKED, never by cursor.
CREATE TABLE outbox (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run          integer     NOT NULL,
    topic        text        NOT NULL CHECK (topic IN ('job', 'result')),
    episode      digest      NOT NULL,
    attempt      integer     NOT NULL,
    payload      bytea,
    created_at   timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz,
    CHECK (topic = 'job' OR payload IS NOT NULL)
) WITH (fillfactor = 80);
CREATE INDEX outbox_unpublished ON outbox (id) WHERE published_at IS NULL;
CREATE UNIQUE INDEX outbox_once ON outbox (run, episode, topic, attempt);

-- Paths on which an environment's own twins disagree.
CREATE TABLE noise (
    environment label  NOT NULL,
    version     label  NOT NULL,
    tool        label  NOT NULL,
    pattern     label  NOT NULL,
    twins       bigint NOT NULL CHECK (twins >= 0),
    disagreed   bigint NOT NULL CHECK (disagreed BETWEEN 0 AND twins),
    PRIMARY KEY (environment, version, tool, pattern)
);

-- Faults of a sandbox that are known: pairs that meet one are masked.
CREATE TABLE known_defect (
    environment label       NOT NULL,
    version     label       NOT NULL, -- '' = every version
    tool        label       NOT NULL,
    pattern     label       NOT NULL,
    reason      label       NOT NULL CHECK (reason <> ''),
    expires_at  timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (environment, version, tool, pattern)
);

-- Calls that a sandbox was seen to refuse.
CREATE TABLE canary (
    id          digest      PRIMARY KEY,
    environment label       NOT NULL,
    version     label       NOT NULL,
    tool        label       NOT NULL,
    mutation    label       NOT NULL,
    level       text        NOT NULL CHECK (level IN ('schema', 'domain')),
    family      label       NOT NULL,
    episode     bytea       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX canary_by_tool ON canary (environment, version, tool);

-- Results of runs that are being dropped, until it is known that no run holds them.
CREATE TABLE dropped_pair (
    key    digest NOT NULL,
    result digest NOT NULL,
    PRIMARY KEY (key, result)
);

-- What a gate bought: an order is open while one of its episodes is.
CREATE TABLE sample_order (
    run         integer NOT NULL REFERENCES run ON DELETE CASCADE,
    environment label   NOT NULL,
    version     label   NOT NULL,
    tool        label   NOT NULL,
    mode        text    NOT NULL,
    figure      label   NOT NULL,
    episode     digest  NOT NULL,
    calls       integer NOT NULL CHECK (calls > 0), -- of the tool in the episode
    ordered_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run, environment, version, tool, mode, figure, episode)
);
