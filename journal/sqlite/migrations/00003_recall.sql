-- +goose Up

-- What was said in a conversation, for recalls: an index that is brought up to date when
-- one is asked for, session by session. It can be dropped and made again.
CREATE TABLE recall (
	id      INTEGER PRIMARY KEY,     -- session << 32 | seq, as records.pos
	owner   TEXT    NOT NULL,        -- tenant:user:
	ts      INTEGER NOT NULL,
	role    TEXT    NOT NULL,
	shown   TEXT    NOT NULL,        -- its beginning
	folded  TEXT    NOT NULL         -- in lower case
) STRICT;
CREATE INDEX recall_owner ON recall (owner, id);

-- How far sessions are in it.
CREATE TABLE recall_marks (
	session INTEGER PRIMARY KEY,
	seq     INTEGER NOT NULL
) STRICT;

-- Which texts hold three letters in a row. Erased ones leave nothing behind.
CREATE VIRTUAL TABLE recall_text USING fts5(
	folded, content = 'recall', content_rowid = 'id', tokenize = 'trigram case_sensitive 1', detail = 'none'
);
INSERT INTO recall_text (recall_text, rank) VALUES ('secure-delete', 1);

-- +goose StatementBegin
CREATE TRIGGER recall_added AFTER INSERT ON recall BEGIN
	INSERT INTO recall_text (rowid, folded) VALUES (new.id, new.folded);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER recall_removed AFTER DELETE ON recall BEGIN
	INSERT INTO recall_text (recall_text, rowid, folded) VALUES ('delete', old.id, old.folded);
END;
-- +goose StatementEnd
