-- How pairs differ, split by the terminal success of their task as all figures
-- are. What was counted before stays whole: -2 = not split.

-- +goose Up
ALTER TABLE leaf ADD COLUMN success smallint NOT NULL DEFAULT -2 CHECK (success BETWEEN -2 AND 1);
ALTER TABLE leaf ALTER COLUMN success DROP DEFAULT;
ALTER TABLE leaf DROP CONSTRAINT leaf_run_tool_part_pattern_kind_class_mode_environment_vers_key;
ALTER TABLE leaf ADD CONSTRAINT leaf_once UNIQUE (run, tool, part, pattern, kind, class, mode, environment, version, success);
