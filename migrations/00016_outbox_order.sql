-- Jobs and announcements leave the outbox side by side: neither waits behind the other.

-- +goose Up
CREATE INDEX outbox_jobs ON outbox (id) WHERE published_at IS NULL AND topic = 'job';
CREATE INDEX outbox_announcements ON outbox (id) WHERE published_at IS NULL AND topic <> 'job';
DROP INDEX outbox_unpublished;
