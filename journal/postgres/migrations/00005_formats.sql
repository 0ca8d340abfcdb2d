-- +goose Up

-- Which hosts may use this schema beside the one that migrated it. Each later migration tells in
-- a row of its own what is the oldest format that a host must know to go on: the one before, if
-- the migration only adds what that host does without, else its own. A migration without a row
-- is of the second kind. Format 5 is the first that looks here.
CREATE TABLE formats (
	format bigint PRIMARY KEY,
	oldest bigint NOT NULL CHECK (oldest <= format)
);
INSERT INTO formats (format, oldest) VALUES (5, 5);
