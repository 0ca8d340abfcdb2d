-- +goose Up

-- Hosts that run sessions of this journal beside each other, and which of them runs which
-- session. Nothing of it outlives a crash of the server, nor need it: hosts enter themselves
-- again, and the heads decide who may append. So commits here write no log and wait for no disk.
CREATE UNLOGGED TABLE hosts (
	id       uuid PRIMARY KEY, -- of one life of a host
	address  text        COLLATE "C" NOT NULL,
	version  text        COLLATE "C" NOT NULL,
	draining boolean     NOT NULL,
	until    timestamptz NOT NULL -- end of its lease, by the clock of the database
) WITH (fillfactor = 50);

CREATE UNLOGGED TABLE leases (
	sid  text COLLATE "C" PRIMARY KEY, -- tenant:user:id
	host uuid NOT NULL
);
CREATE INDEX leases_host ON leases (host);
