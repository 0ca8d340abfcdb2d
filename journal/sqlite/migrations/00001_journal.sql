-- +goose Up

-- One row per incarnation: the head of its chain and the summary of the boot scan.
CREATE TABLE sessions (
	id     INTEGER PRIMARY KEY,
	inc    BLOB    NOT NULL UNIQUE, -- UUIDv7, 16 bytes
	sid    TEXT    NOT NULL,        -- tenant:user:id
	live   INTEGER NOT NULL,        -- 1: the incarnation its sid means
	seq    INTEGER NOT NULL,
	hash   BLOB    NOT NULL,
	epoch  INTEGER NOT NULL,
	run    INTEGER NOT NULL,
	turn   INTEGER NOT NULL,
	open   INTEGER NOT NULL,        -- 1: the last run has not ended
	queued INTEGER NOT NULL,        -- inputs that no run has taken up
	closed INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_live ON sessions (sid) WHERE live = 1;
CREATE INDEX sessions_sid ON sessions (sid, inc);

-- Records in the order of commit, found by pos. What a row need not hold it does
-- not: sid and inc are the session's, prev is the hash of the row before, and the
-- body digest is computed unless the body is gone.
CREATE TABLE records (
	id     INTEGER PRIMARY KEY,
	pos    INTEGER NOT NULL,        -- session << 32 | seq
	epoch  INTEGER NOT NULL,
	run    INTEGER NOT NULL,
	turn   INTEGER NOT NULL,
	type   TEXT    NOT NULL,
	ts     INTEGER NOT NULL,        -- nanoseconds since 1970, UTC
	salt   BLOB,                    -- salt and body go together
	body   TEXT,                    -- canonical JSON
	digest BLOB,                    -- of an erased body, else null
	hash   BLOB    NOT NULL,
	kid    TEXT,
	sig    BLOB                     -- receipt
) STRICT;
CREATE UNIQUE INDEX records_pos ON records (pos);

CREATE TABLE blobs (
	id      INTEGER PRIMARY KEY,
	session INTEGER NOT NULL,
	digest  BLOB    NOT NULL,       -- SHA-256 of data
	data    BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX blobs_key ON blobs (session, digest);

CREATE TABLE snapshots (
	session INTEGER PRIMARY KEY,
	seq     INTEGER NOT NULL,
	hash    BLOB    NOT NULL,
	format  INTEGER NOT NULL,
	state   BLOB    NOT NULL,
	sum     BLOB    NOT NULL        -- SHA-256 of all of it
) STRICT;

CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- For people with a SQL prompt.
CREATE VIEW journal AS
SELECT s.sid, r.pos & 4294967295 AS seq, r.run, r.turn, r.type,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.ts / 1e9, 'unixepoch') AS at, r.body, r.kid,
       lower(hex(s.inc)) AS inc
FROM records r JOIN sessions s ON s.id = r.pos >> 32
ORDER BY s.sid, s.inc, r.pos;
