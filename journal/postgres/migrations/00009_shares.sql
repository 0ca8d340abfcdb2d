-- +goose Up

-- What the hosts of a cluster use of the limits of tenants, and the part that each has of them.
-- Only hosts of a cluster write here. A host of an earlier version counts by itself beside it.
CREATE TABLE shares (
	tenant text COLLATE "C" NOT NULL,
	kind   text COLLATE "C" NOT NULL,
	day    text COLLATE "C" NOT NULL, -- '' of what is in use at the moment: nothing, when the host's lease is over
	host   uuid   NOT NULL,           -- one life of a host
	turn   bigint NOT NULL,           -- of that life: a later word of a host counts
	used   bigint NOT NULL,
	held   bigint NOT NULL,           -- the part of this host
	want   bigint NOT NULL,           -- the part that it has asked for
	PRIMARY KEY (tenant, kind, day, host)
) WITH (fillfactor = 50);

-- A part grows with the version of its limit: of two hosts that have counted what is free at
-- the same time, one gets it.
CREATE TABLE limits (
	tenant  text COLLATE "C" NOT NULL,
	kind    text COLLATE "C" NOT NULL,
	day     text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	PRIMARY KEY (tenant, kind, day)
) WITH (fillfactor = 50);

INSERT INTO formats (format, oldest) VALUES (9, 5);
