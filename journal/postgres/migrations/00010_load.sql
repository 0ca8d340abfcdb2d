-- +goose Up

-- What each host has to do, as it says with its renewal: new sessions may begin where that is
-- least. A host of an earlier version says nothing.
ALTER TABLE hosts
	ADD COLUMN runs     bigint, -- in flight, or waiting
	ADD COLUMN max_runs bigint,
	ADD COLUMN sessions bigint; -- that are its own

INSERT INTO formats (format, oldest) VALUES (10, 5);
