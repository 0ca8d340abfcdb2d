-- +goose Up

-- What was said in a conversation, for recalls: an index that is brought up to date when
-- one is asked for, session by session. It can be dropped and made again.
CREATE TABLE recall (
	session bigint NOT NULL,
	seq     bigint NOT NULL,
	owner   text   COLLATE "C" NOT NULL, -- tenant:user:
	ts      bigint NOT NULL,
	role    text   COLLATE "C" NOT NULL,
	shown   text   COLLATE "C" NOT NULL, -- its beginning
	folded  text   COLLATE "C" NOT NULL, -- in lower case
	PRIMARY KEY (session, seq)
);
CREATE INDEX recall_owner ON recall (owner);

-- How far sessions are in it.
CREATE TABLE recall_marks (
	session bigint PRIMARY KEY,
	seq     bigint NOT NULL
);
