-- +goose Up

-- One row per incarnation: the head of its chain and the summary of the boot scan.
-- Every commit rewrites rows here, so pages keep room for it and are cleaned early.
CREATE TABLE heads (
	id     bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	inc    uuid    NOT NULL UNIQUE,
	sid    text    COLLATE "C" NOT NULL, -- tenant:user:id, in the order of its bytes
	live   boolean NOT NULL,             -- the incarnation its sid means
	seq    bigint  NOT NULL,
	hash   bytea   NOT NULL,
	epoch  bigint  NOT NULL,
	run    bigint  NOT NULL,
	turn   bigint  NOT NULL,
	open   boolean NOT NULL,             -- the last run has not ended
	queued bigint  NOT NULL,             -- inputs that no run has taken up
	closed boolean NOT NULL,
	wake   bigint  NOT NULL              -- when a suspended turn's first question expires, as ts; 0 without one
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX heads_live ON heads (sid) WHERE live;
CREATE INDEX heads_sid ON heads (sid, inc);
CREATE INDEX heads_pending ON heads (sid, inc) WHERE wake = 0 AND (open OR queued > 0);
CREATE INDEX heads_wake ON heads (wake, id) WHERE wake > 0;

-- What a row need not hold it does not: sid and inc are the head's, prev is the
-- hash of the row before, and the body digest is computed unless the body is gone.
CREATE TABLE records (
	session bigint NOT NULL,
	seq     bigint NOT NULL,
	epoch   bigint NOT NULL,
	run     bigint NOT NULL,
	turn    bigint NOT NULL,
	type    text   COLLATE "C" NOT NULL,
	ts      bigint NOT NULL, -- nanoseconds since 1970, UTC
	salt    bytea,           -- salt and body go together
	body    text   COLLATE "C", -- canonical JSON
	digest  bytea,           -- of an erased body, else null
	hash    bytea  NOT NULL,
	kid     bytea,
	sig     bytea,           -- receipt
	PRIMARY KEY (session, seq)
);

CREATE TABLE blobs (
	session bigint NOT NULL,
	digest  bytea  NOT NULL, -- SHA-256 of data
	data    bytea  NOT NULL,
	PRIMARY KEY (session, digest)
);

CREATE TABLE snapshots (
	session bigint PRIMARY KEY,
	seq     bigint NOT NULL,
	hash    bytea  NOT NULL,
	format  bigint NOT NULL,
	state   bytea  NOT NULL,
	sum     bytea  NOT NULL  -- SHA-256 of all of it
);

CREATE TABLE meta (
	key   text  COLLATE "C" PRIMARY KEY,
	value bytea NOT NULL
);

-- For people with a SQL prompt.
CREATE VIEW journal AS
SELECT h.sid, r.seq, r.run, r.turn, r.type,
       to_timestamp(r.ts / 1000000000.0) AS at, r.body, encode(r.kid, 'escape') AS kid, h.inc
FROM records r JOIN heads h ON h.id = r.session;
