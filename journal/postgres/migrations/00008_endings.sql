-- +goose Up

-- How the last run has ended, and whom a session works for or continues, for lists.
ALTER TABLE listings
	ADD COLUMN decision text COLLATE "C" NOT NULL DEFAULT '', -- of the last run.end: DONE, ABORT, HALT; '' for none
	ADD COLUMN code     text COLLATE "C" NOT NULL DEFAULT '',
	ADD COLUMN ended    bigint NOT NULL DEFAULT 0,            -- seq of that record, 0 for none
	ADD COLUMN parent   text COLLATE "C" NOT NULL DEFAULT '', -- sid, of the first record
	ADD COLUMN origin   text COLLATE "C" NOT NULL DEFAULT ''; -- sid, of the first record

-- Sessions of before, from their records. A name with a NUL is no text here.
UPDATE listings l SET ended = coalesce((SELECT r.seq FROM records r
	WHERE r.session = l.session AND r.type = 'run.end' ORDER BY r.seq DESC LIMIT 1), 0);
UPDATE listings l SET decision = r.body::json->>'decision', code = coalesce(r.body::json->>'reason', '')
	FROM records r WHERE l.ended > 0 AND r.session = l.session AND r.seq = l.ended
	AND CASE WHEN strpos(r.body, '\u0000') = 0 THEN r.body::json->>'decision' IN ('DONE', 'ABORT', 'HALT') ELSE false END;
UPDATE listings l SET parent = coalesce(r.body::json->'parent'->>'sid', ''), origin = coalesce(r.body::json->'origin'->>'sid', '')
	FROM records r WHERE r.session = l.session AND r.seq = 1 AND r.type = 'session.opened' AND strpos(r.body, '\u0000') = 0;

-- Nearly all runs end DONE; for the others a page reads as many rows as it has.
CREATE INDEX listings_halted ON listings (owner, changed, inc) WHERE decision = 'HALT';
CREATE INDEX listings_aborted ON listings (owner, changed, inc) WHERE decision = 'ABORT';

-- A host of before would leave the end of an earlier run in the row.
INSERT INTO formats (format, oldest) VALUES (8, 8);
