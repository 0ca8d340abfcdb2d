-- +goose Up

-- When the first question of a suspended turn expires, in nanoseconds since 1970;
-- 0 while no turn is suspended.
ALTER TABLE sessions ADD COLUMN wake INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_wake ON sessions (wake) WHERE wake > 0;
