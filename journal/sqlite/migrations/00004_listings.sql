-- +goose Up

-- What lists show of a session beside its head, written by the commits that change it:
-- inputs, beginnings and ends of runs, suspensions, titles and tags.
CREATE TABLE listings (
	session   INTEGER PRIMARY KEY,
	inc       BLOB    NOT NULL,
	owner     TEXT    NOT NULL,     -- tenant:user:
	agent     TEXT    NOT NULL,     -- of the first record; '' for none
	manifest  BLOB,
	created   INTEGER NOT NULL,     -- nanoseconds since 1970, UTC
	changed   INTEGER NOT NULL,
	title     TEXT    NOT NULL,
	folded    TEXT    NOT NULL,     -- the title in lower case
	tags      TEXT    NOT NULL,     -- each between two line ends
	described INTEGER NOT NULL      -- seq of the record that has title and tags, 0 for none
) STRICT;
CREATE INDEX listings_owner ON listings (owner, changed, inc);
CREATE INDEX listings_changed ON listings (changed, inc);

-- Sessions of before have no title and no tags. A name with a NUL is left out.
INSERT INTO listings (session, inc, owner, agent, manifest, created, changed, title, folded, tags, described)
SELECT s.id, s.inc, substr(s.sid, 1, instr(s.sid, ':') + instr(substr(s.sid, instr(s.sid, ':') + 1), ':')),
	CASE WHEN f.type = 'session.opened' AND json_valid(f.body) AND instr(f.body, '\u0000') = 0 THEN coalesce(json_extract(f.body, '$.name'), '') ELSE '' END,
	CASE WHEN f.type = 'session.opened' AND json_valid(f.body) AND instr(f.body, '\u0000') = 0 THEN unhex(json_extract(f.body, '$.manifest')) END,
	f.ts, max(f.ts, e.ts), '', '', '', 0
FROM sessions s JOIN records f ON f.pos = (s.id << 32 | 1) JOIN records e ON e.pos = (s.id << 32 | s.seq);
