-- Large columns are compressed with lz4 where the server has it: pglz took a
-- fifth of the server's time in a commit.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE pair ALTER doc SET COMPRESSION lz4, ALTER extra SET COMPRESSION lz4;
        ALTER TABLE body ALTER content SET COMPRESSION lz4; -- partitions of later runs inherit it
        ALTER TABLE episode ALTER body SET COMPRESSION lz4;
        ALTER TABLE outbox ALTER payload SET COMPRESSION lz4;
    END IF;
END
$$;
-- +goose StatementEnd
