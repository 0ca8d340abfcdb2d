-- +goose Up

-- How the last run has ended, and whom a session works for or continues, for lists.
ALTER TABLE listings ADD COLUMN decision TEXT NOT NULL DEFAULT ''; -- of the last run.end: DONE, ABORT, HALT; '' for none
ALTER TABLE listings ADD COLUMN code TEXT NOT NULL DEFAULT '';
ALTER TABLE listings ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;  -- seq of that record, 0 for none
ALTER TABLE listings ADD COLUMN parent TEXT NOT NULL DEFAULT '';   -- sid, of the first record
ALTER TABLE listings ADD COLUMN origin TEXT NOT NULL DEFAULT '';   -- sid, of the first record

-- Sessions of before, from their records. A name with a NUL is left out.
UPDATE listings SET ended = coalesce((SELECT r.pos & 4294967295 FROM records r
	WHERE r.pos BETWEEN (session << 32) AND (session << 32 | 4294967295) AND r.type = 'run.end' ORDER BY r.pos DESC LIMIT 1), 0);
UPDATE listings SET decision = json_extract(r.body, '$.decision'), code = coalesce(json_extract(r.body, '$.reason'), '')
	FROM records r WHERE ended > 0 AND r.pos = (session << 32 | ended) AND json_valid(r.body) AND instr(r.body, '\u0000') = 0
	AND json_extract(r.body, '$.decision') IN ('DONE', 'ABORT', 'HALT');
UPDATE listings SET parent = coalesce(json_extract(r.body, '$.parent.sid'), ''), origin = coalesce(json_extract(r.body, '$.origin.sid'), '')
	FROM records r WHERE r.pos = (session << 32 | 1) AND r.type = 'session.opened' AND json_valid(r.body) AND instr(r.body, '\u0000') = 0;

-- Nearly all runs end DONE; for the others a page reads as many rows as it has.
CREATE INDEX listings_halted ON listings (owner, changed, inc) WHERE decision = 'HALT';
CREATE INDEX listings_aborted ON listings (owner, changed, inc) WHERE decision = 'ABORT';

-- Which titles hold three letters in a row. Erased ones leave nothing behind.
CREATE VIRTUAL TABLE listing_text USING fts5(
	folded, content = 'listings', content_rowid = 'session', tokenize = 'trigram case_sensitive 1', detail = 'none'
);
INSERT INTO listing_text (listing_text, rank) VALUES ('secure-delete', 1);
INSERT INTO listing_text (rowid, folded) SELECT session, folded FROM listings WHERE folded <> '';

-- +goose StatementBegin
CREATE TRIGGER listing_added AFTER INSERT ON listings WHEN new.folded <> '' BEGIN
	INSERT INTO listing_text (rowid, folded) VALUES (new.session, new.folded);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER listing_renamed AFTER UPDATE OF folded ON listings WHEN old.folded <> new.folded BEGIN
	INSERT INTO listing_text (listing_text, rowid, folded) SELECT 'delete', old.session, old.folded WHERE old.folded <> '';
	INSERT INTO listing_text (rowid, folded) SELECT new.session, new.folded WHERE new.folded <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER listing_removed AFTER DELETE ON listings WHEN old.folded <> '' BEGIN
	INSERT INTO listing_text (listing_text, rowid, folded) VALUES ('delete', old.session, old.folded);
END;
-- +goose StatementEnd
