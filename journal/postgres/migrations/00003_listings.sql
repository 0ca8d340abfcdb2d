-- +goose Up

-- What lists show of a session beside its head, written by the commits that change it:
-- inputs, beginnings and ends of runs, suspensions, titles and tags.
CREATE TABLE listings (
	session   bigint PRIMARY KEY,
	inc       uuid   NOT NULL,
	owner     text   COLLATE "C" NOT NULL, -- tenant:user:
	agent     text   COLLATE "C" NOT NULL, -- of the first record; '' for none
	manifest  bytea,
	created   bigint NOT NULL,             -- nanoseconds since 1970, UTC
	changed   bigint NOT NULL,
	title     text   COLLATE "C" NOT NULL,
	folded    text   COLLATE "C" NOT NULL, -- the title in lower case
	tags      text   COLLATE "C" NOT NULL, -- each between two line ends
	described bigint NOT NULL              -- seq of the record that has title and tags, 0 for none
);
CREATE INDEX listings_owner ON listings (owner, changed, inc);
CREATE INDEX listings_changed ON listings (changed, inc);

-- Sessions of before have no title and no tags. A name with a NUL is no text here.
INSERT INTO listings (session, inc, owner, agent, manifest, created, changed, title, folded, tags, described)
SELECT h.id, h.inc, substring(h.sid from '^[^:]*:[^:]*:'),
	CASE WHEN f.type = 'session.opened' AND strpos(f.body, '\u0000') = 0 THEN coalesce(f.body::json->>'name', '') ELSE '' END,
	CASE WHEN f.type = 'session.opened' AND strpos(f.body, '\u0000') = 0 THEN decode(f.body::json->>'manifest', 'hex') END,
	f.ts, greatest(f.ts, e.ts), '', '', '', 0
FROM heads h JOIN records f ON f.session = h.id AND f.seq = 1 JOIN records e ON e.session = h.id AND e.seq = h.seq;
