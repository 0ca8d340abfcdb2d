-- +goose Up

-- What hosts that share this journal tell each other: public keys, and tokens of callers. The
-- hosts seal each note with a secret that the database does not have.
CREATE TABLE boards (
	kind    text   COLLATE "C" PRIMARY KEY,
	version bigint NOT NULL, -- of the last change
	dropped bigint NOT NULL  -- of the last change that took notes away
) WITH (fillfactor = 50);

CREATE TABLE notes (
	kind    text   COLLATE "C" NOT NULL,
	id      text   COLLATE "C" NOT NULL,
	body    bytea  NOT NULL,
	seal    bytea  NOT NULL,
	born    bigint GENERATED ALWAYS AS IDENTITY, -- their order
	version bigint NOT NULL,
	PRIMARY KEY (kind, id)
);
CREATE INDEX notes_version ON notes (kind, version);

INSERT INTO formats (format, oldest) VALUES (6, 5);
